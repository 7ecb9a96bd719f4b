"""The scaler at work where it is missing, and autocast where it belongs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gradlint.remedy import Remedy

if TYPE_CHECKING:
    from gradlint.events import Backward, Clip, Edit, Read, Site, Step, Update
    from gradlint.rewrite.bench import Bench


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


def migrate_amp(func: Site, new: str) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.amp_api import migrate_amp

        migrate_amp(bench, func)

    return Remedy(f"Use `{new}`", act)
