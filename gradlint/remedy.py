"""Ways to put a finding right: what a rule proposes, and what the fixer tries out on the text.

The rewrites themselves need libcst and are imported when they are tried: most files have nothing to mend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gradlint.model import FixSafety
from gradlint.records import dataclass

if TYPE_CHECKING:
    from gradlint.events import Backward, Clip, Edit, Event, Read, Site, Step, Update, Zero
    from gradlint.frontend.numerics.operations import Operation
    from gradlint.rewrite.bench import Bench


@dataclass(frozen=True, slots=True)
class Remedy:
    """One rewrite. `act` works on a copy of the file, and raises NotFixable with a reason if it cannot be done."""

    message: str
    act: Callable[[Bench], None]
    #: less than what the rule promises, if this way is not as safe
    safety: FixSafety | None = None


def move(
    event: Event, message: str, *, before: Event | None = None, after: Event | None = None,
    past: tuple[type[Event], ...] = (), level: bool = False,
) -> Remedy:  # fmt: skip
    """The statement of an event goes beside that of another, with its comments and its condition.

    `past`: behind what does these things, too, if it follows there. `level`: in the block that it is in, behind (or in
    front of) whatever holds the other.
    """

    def act(bench: Bench) -> None:
        from gradlint.rewrite.moving import move

        move(bench, event, before=before, after=after, past=past, level=level)

    return Remedy(message, act)


def move_all(events: Sequence[Event], message: str, before: Event) -> Remedy:
    """Several statements, in their order."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.moving import move_all

        move_all(bench, events, before)

    return Remedy(message, act)


def delete(event: Event, message: str) -> Remedy:
    """The statement of an event goes."""
    return Remedy(message, lambda bench: bench.delete(event))


def add_parentheses(at: Site) -> Remedy:
    """`optimizer.step` -> `optimizer.step()`."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.calls import call_it

        call_it(bench, at)

    return Remedy("Add the parentheses", act)


def rewrite(at: Event | Site, code: str, message: str, *, and_at: Site | None = None, and_code: str = "") -> Remedy:
    """Another expression in the place of one, and perhaps of a second one."""

    def act(bench: Bench) -> None:
        bench.replace(at, code)
        if and_at is not None:
            bench.replace(and_at, and_code)

    return Remedy(message, act)


# -- mixed precision


def unscale_before(
    event: Clip | Read | Edit, backward: Backward | None, steps: Sequence[Step], *, wide: bool = False
) -> Iterator[Remedy]:  # fmt: skip
    """`scaler.unscale_(optimizer)` in front of what needs true gradients, or of the call that leads there.

    `wide`: outside of the condition round it, because something behind that needs them, too.
    """

    def at(outer: int) -> Callable[[Bench], None]:
        def act(bench: Bench) -> None:
            from gradlint.rewrite.amp import unscale

            unscale(bench, event, backward, steps, outer=outer, wide=wide)

        return act

    for outer in range(len(event.via) + 1):
        yield Remedy("Unscale the gradients first", at(outer))


def step_through_scaler(step: Step, backward: Backward, updates: Sequence[Update]) -> Remedy:
    """`updates`: those that come too early."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.amp import step_through

        step_through(bench, step, backward, updates)

    return Remedy("Step through the scaler", act)


def update_scaler(steps: Sequence[Step], scaler: str) -> Iterator[Remedy]:
    """Behind the last step, behind its condition, behind the call that leads there."""

    def at(outer: int, wide: bool) -> Callable[[Bench], None]:
        def act(bench: Bench) -> None:
            from gradlint.rewrite.amp import update

            update(bench, steps, outer=outer, wide=wide)

        return act

    for outer in range(len(steps[-1].via) + 1):
        for wide in (False, True):
            yield Remedy(f"Insert `{scaler}.update()`", at(outer, wide))


def scale_losses(backwards: Sequence[Backward], step: Step) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.amp import scale

        scale(bench, backwards, step)

    return Remedy("Scale the loss", act)


def leave_autocast(backward: Backward, autocast: Site) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.amp import leave_autocast

        leave_autocast(bench, backward, autocast)

    return Remedy("Take the backward out of the autocast block", act)


# -- accumulation


def divide_loss(backward: Backward, step: Step, n: str) -> Remedy:
    """`(loss / n).backward()`, by the N that the boundary uses; `n` is what to call it."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.divide import divide_by_window

        divide_by_window(bench, backward, step)

    return Remedy(f"Divide the loss by {n}", act)


def divide_losses_not_gradients(edits: Sequence[Edit], backwards: Sequence[Backward], by: str) -> Iterator[Remedy]:
    """The loop that divides gradients goes, or the call of the function that has it; the loss is divided instead."""

    def at(outer: int) -> Callable[[Bench], None]:
        def act(bench: Bench) -> None:
            from gradlint.rewrite.divide import divide_not_gradients

            divide_not_gradients(bench, edits, backwards, outer)

        return act

    for outer in reversed(range(len(edits[0].via) + 1)):
        yield Remedy(f"Divide the loss by `{by}` instead of the gradients", at(outer))


def undivide_loss(loss: Backward | Site, divisor: str) -> Remedy:
    """Of a loss that goes backward here, or of the division at this place."""

    def act(bench: Bench) -> None:
        from gradlint.events import Site
        from gradlint.rewrite.divide import undivide, undivide_at

        if isinstance(loss, Site):
            undivide_at(bench, loss)
        else:
            undivide(bench, loss)

    return Remedy(f"Drop the division by `{divisor}`", act)


# -- other functions


def rename_function(func: Site, old: str, new: str) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.migrate import rename_function

        rename_function(bench, func, old, new)

    return Remedy(f"Write `{new}`", act)


def clip_by_norm(clip: Clip, limit: str | None = None) -> Remedy:
    """With the user's own limit, or with another."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.migrate import clip_by_norm

        clip_by_norm(bench, clip, limit)

    return Remedy("Clip by norm instead", act)


def clip_gradients_by_norm(clip: Clip, limit: str | None = None) -> Remedy:
    """Lightning's and Fabric's own clip; with the user's limit, or with another."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.frameworks import clip_gradients_by_norm

        clip_gradients_by_norm(bench, clip, limit)

    return Remedy("Clip by norm instead", act)


def clip_through_model(clip: Clip) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.migrate import clip_through_model

        clip_through_model(bench, clip)

    return Remedy("Clip through the FSDP model", act)


def clip_when_synced(clip: Clip) -> Remedy:
    """`if accelerator.sync_gradients:` round the clip."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.migrate import clip_when_synced

        clip_when_synced(bench, clip)

    return Remedy("Clip only where Accelerate steps", act)


def insert_clip(step: Step, model: str) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.migrate import insert_clip

        insert_clip(bench, step.site, model)

    return Remedy("Clip the norm to 1.0 before the step", act)


def log_norm(clips: Sequence[Clip], *, beside: bool = False) -> Remedy:
    """The norms that clips give back are kept, and logged where the loop logs; or right behind the clip."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.monitor import log_norm

        log_norm(bench, clips, beside=beside)

    return Remedy("Keep the norm that the clip returns, and log it", act)


def make_list(clip: Clip) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.migrate import make_list

        make_list(bench, clip)

    return Remedy("Keep the parameters in a list", act)


def migrate_amp(func: Site, new: str) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.migrate import migrate_amp

        migrate_amp(bench, func)

    return Remedy(f"Use `{new}`", act)


def pass_keyword(call: Site, keyword: str, value: str) -> Remedy:
    """`f(x)` -> `f(x, keyword=value)`."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.arguments import add_keyword

        add_keyword(bench, call, keyword, value)

    return Remedy(f"Pass `{keyword}={value}`", act)


def use_relu(activations: Sequence[Site]) -> Remedy:
    """In the place of these activations, by the sites of their names."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.activations import use_relu

        use_relu(bench, activations)

    return Remedy("Use ReLU between the layers", act)


# -- numbers on the way to the loss


def clamp_operand(log: Site, operand: Site) -> Remedy:
    """`torch.log(p)` -> `torch.log(p.clamp_min(eps))`, with an eps that this file's numbers can hold."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.numerics_guard import clamp_operand

        clamp_operand(bench, log, operand)

    return Remedy("Keep it above 0 with `clamp_min`", act)


def root_to_absolute(root: Site, operand: Site, *, tensor: bool) -> Remedy:
    """`torch.sqrt(x ** 2)` -> `x.abs()`."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.numerics_guard import root_to_absolute

        root_to_absolute(bench, root, operand, tensor=tensor)

    return Remedy("Take the absolute value", act)


def fuse(
    operation: Operation, message: str, *, exp: Operation | None = None, safety: FixSafety | None = None
) -> Remedy:  # fmt: skip
    """One function of torch for an operation and what made its operand; unsafe: the operand has other uses, too."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.numerics_fuse import fuse

        fuse(bench, operation, exp, elsewhere=safety is FixSafety.UNSAFE)

    return Remedy(message, act, safety)


# -- the boundary, distributed training


def count_from_one(step: Step, *, everywhere: bool = False) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.boundary import count_from_one

        count_from_one(bench, step, everywhere=everywhere)

    return Remedy("Count micro-batches from one", act)


def step_at_the_end(step: Step) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.boundary import step_at_the_end

        step_at_the_end(bench, step)

    return Remedy("Step at the end of the loader, too", act)


def wrap_in_no_sync(backward: Backward, step: Step) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.nosync import wrap

        wrap(bench, backward, step)

    return Remedy("Put forward and backward under no_sync, on all but the last micro-batch", act)


def pull_forward_in(backward: Backward) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.nosync import pull_forward_in

        pull_forward_in(bench, backward)

    return Remedy("Pull the forward into the no_sync block", act)


def invert_no_sync(backward: Backward, no_sync: Site | None, step: Step) -> Remedy:
    """The context, or without one the flag of the model, gets the opposite condition."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.nosync import invert, invert_flag

        if no_sync is None:
            invert_flag(bench, backward)
        else:
            invert(bench, backward, no_sync, step)

    return Remedy("Use no_sync before the boundary, not on it", act)


def ask_boundary(backward: Backward, no_sync: Site, step: Step) -> Remedy:
    """The condition of no_sync becomes that of the boundary."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.nosync import ask_boundary

        ask_boundary(bench, no_sync, step)

    return Remedy("Use no_sync exactly before the boundary", act)


def delete_all(event: Event, message: str, allowed: Callable[[Event], bool]) -> Iterator[Remedy]:
    """The statement of an event goes, with the loop or the condition round it, or the call of the function, that
    does nothing else."""
    for outer in reversed(range(len(event.via) + 1)):
        yield Remedy(message, lambda bench, outer=outer: bench.delete(event, allowed, outer))  # type: ignore[misc]  # mypy cannot infer the default


# -- the loop


def clear_first(backward: Backward, steps: Sequence[Step]) -> Remedy:
    """`optimizer.zero_grad()` at the head of the loop; in a function for one batch, in front of the backward."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.clear import clear_first

        clear_first(bench, backward, steps)

    return Remedy("Clear the gradients before the backward", act)


def clear_behind_window(zero: Zero, step: Step) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.clear import clear_behind_window

        clear_behind_window(bench, zero, step)

    return Remedy("Move the clearing behind the step", act)


def clear_behind(step: Step) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.clear import clear_behind

        clear_behind(bench, step)

    return Remedy("Clear the gradients behind the step", act)


def step_behind(step: Step, backward: Backward, followers: Sequence[Event]) -> Remedy:
    """The step goes behind the backward; what must follow it (update, scheduler) goes with it."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.clear import step_behind

        step_behind(bench, step, backward, followers)

    return Remedy("Move the step behind the backward", act)


def measure_first(read: Read, clip: Clip) -> Iterator[Remedy]:
    """The measure goes in front of the clip, or the clip behind it; whoever keeps the clip's own norm wants both."""
    from gradlint.events import Read

    def check(bench: Bench) -> None:
        bench.check_binds_nothing(clip)

    first = move(read, "Measure the gradients before they are clipped", before=clip)
    second = move(clip, "Clip only after the gradients were measured", after=read, past=(Read,))
    for way in (first, second):

        def act(bench: Bench, way: Remedy = way) -> None:
            check(bench)
            way.act(bench)

        yield Remedy(way.message, act)
