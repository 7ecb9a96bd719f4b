"""Puts the clearing of gradients and the step of the optimizer in their places."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import BEHIND_STEP, Backward, Clip, Edit, Event, Read, Step, Unscale, Update, Zero
from gradlint.repair.arguments import optimizer_of
from gradlint.repair.nodes import NotFixable, within
from gradlint.repair.statements import asks_of_batch, check_not_read, landing, move

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench
    from gradlint.repair.tree import Statement


def clear_first(bench: Bench, backward: Backward, steps: Sequence[Step], *, close: bool = False) -> None:
    """Clears at the head of the loop that runs all; without one, or if it must be close, in front of the backward."""
    for step in reversed(steps):
        code = _zero(bench, step)
        loop = None if close else _common_loop(bench, backward, step)
        _check_each_turn(bench, backward, step)
        if step.site in backward.via:
            # a closure may be called several times for one step: it clears itself
            bench.insert_first(code, bench.statement(backward).home)
        elif loop is not None:
            bench.insert_first(code, loop)
        else:
            bench.insert(code, before=backward)


def clear_before(bench: Bench, zero: Zero, backward: Backward, step: Step) -> None:
    """Moves a clearing in front of the backward, if the step follows that in each turn."""
    _check_each_turn(bench, backward, step)
    move(bench, zero, before=backward)


def clear_late(bench: Bench, zero: Zero, step: Step) -> None:
    """Moves a clearing behind the step, where what is asked there is asked of it, too."""
    _check_due_here(bench, zero, step)
    move(bench, zero, after=step, past=BEHIND_STEP)


def _check_due_here(bench: Bench, zero: Zero, step: Step) -> None:
    """Whether the step is due is asked in the function that clears: behind a call of one that asks it by itself, the
    clearing would run for each micro-batch."""
    homes = [x.function for x in (bench.document.at(bench.node(site)) for site in zero.places) if x is not None]
    for site in (step.asked, step.guard):
        asked = bench.document.at(bench.node(site)) if site is not None else None
        if asked is not None and asked.function not in homes:
            raise NotFixable("whether the step is due is asked in another function")


def _check_each_turn(bench: Bench, backward: Backward, step: Step) -> None:
    """Between the two nothing is asked that may say when a window is full."""
    loop = _common_loop(bench, backward, step)
    if _choice(bench, step, backward, loop) is _Choice.TURN:
        raise NotFixable("the condition round the step may say when a window is full")


def _common_loop(bench: Bench, one: Event, other: Event) -> Statement | None:
    """The innermost loop of the function that runs both."""
    first, second = bench.pair(one, other)
    return next((x for x in first.around() if isinstance(x.node, cst.For | cst.While) and x.holds(second)), None)


class _Choice(enum.Enum):
    """What a condition round a step decides."""

    NOTHING = enum.auto()
    #: whether this batch is any good
    SKIP = enum.auto()
    #: something that changes from turn to turn: perhaps that a window is full
    TURN = enum.auto()


def _choice(bench: Bench, step: Step, backward: Backward | None, loop: Statement | None) -> _Choice:
    """What the conditions between a loop, or a function that is called in each turn, and a step ask, beside known
    boundaries and those round the backward."""
    bound = {name for x in loop.leaves() for name in bench.names_in(x).bound} if loop is not None else set()
    found, guards = _Choice.NOTHING, bench.guards()
    for owner in _asked(bench, step, backward, loop):
        if owner in guards:
            continue
        if asks_of_batch(bench, owner):
            return _Choice.SKIP
        if loop is None or bench.names_read(owner.node.test) & bound:
            found = _Choice.TURN
    return found


def _asked(bench: Bench, step: Step, backward: Backward | None, loop: Statement | None) -> Iterator[Statement]:
    """The conditions that the step stands in, and those that leave before it is reached, behind the backward."""
    made = bench.statement(backward) if backward is not None else None
    used = bench.statement(step)
    for owner in (used, *used.ancestors()):
        if owner is loop or isinstance(owner.node, cst.FunctionDef) or (made is not None and owner.holds(made)):
            return
        if owner is not used and isinstance(owner.node, cst.If) and loop is not None:
            yield owner
        if made is not None:
            before = [x for x in owner.siblings() if x.start < owner.start]
            first = next((n for n, x in enumerate(before) if x.holds(made)), -1)
            yield from (x for x in before[first + 1 :] if _leaves(bench, x))


def _leaves(bench: Bench, statement: Statement) -> bool:
    """`if waiting: return`, with no step of its own."""
    if not isinstance(statement.node, cst.If) or any(isinstance(e, Step) for e in bench.events_in(statement)):
        return False
    return any(isinstance(x.small, cst.Return | cst.Continue) for x in statement.leaves())


def clear_behind(bench: Bench, step: Step) -> None:
    """Clears behind the step and what belongs to it, once for the arms of a flag."""
    loop = bench.statement(step).loop
    choice = _choice(bench, step, None, loop) if loop is not None else _Choice.NOTHING
    if choice is _Choice.SKIP:
        raise NotFixable("the gradients of a batch that is skipped would stay")
    target = bench.alone(step)
    anchor = landing(bench, target, None, step, in_front=False)
    if choice is _Choice.TURN and loop is not None:
        anchor = _both_arms(bench, target, loop)
    elif loop is None and step.asked is not None:
        anchor = target  # a helper that is told when: what it asks may say that a window is full
    if isinstance(anchor.node, cst.For):
        anchor = target  # `for opt in optimizers: opt.step()`: its name is known only there
    anchor = bench.past(anchor, BEHIND_STEP)
    check_not_read(bench, anchor)
    bench.insert_behind(_zero(bench, step), anchor)


def _both_arms(bench: Bench, target: Statement, loop: Statement) -> Statement:
    """`if scaler is None: optimizer.step() else: scaler.step(optimizer)`: behind both, where both step."""
    bound = {name for x in loop.leaves() for name in bench.names_in(x).bound}
    anchor = target
    for owner in target.ancestors():
        if not isinstance(owner.node, cst.If) or len(owner.blocks) < 2 or bench.names_read(owner.node.test) & bound:
            break
        if not all(any(".step(" in bench.code(x.node) for x in block.items) for block in owner.blocks):
            break
        anchor = owner
    return anchor


def _zero(bench: Bench, step: Step) -> str:
    """In the style of the file: with the arguments that its other calls have, if they all have the same."""
    styles = set(re.findall(r"\.zero_grad\(([^()]*)\)", bench.document.source))
    arguments = styles.pop() if len(styles) == 1 else ""
    return f"{optimizer_of(bench, step)}.zero_grad({arguments})"


def clear_behind_window(bench: Bench, zero: Zero, step: Step) -> None:
    """The clearing of each micro-batch goes behind the step; what an epoch leaves over is cleared before the next."""
    code = bench.code(bench.statement(zero).node.with_changes(leading_lines=()))
    loop = _loader_loop(bench, step)
    if _cleared_behind(bench, zero, step):
        bench.delete(zero)
    else:
        _check_due_here(bench, zero, step)
        move(bench, zero, after=step, past=BEHIND_STEP)
    if loop is not None:
        bench.document.put_before(bench.document.new(code.partition("#")[0], loop.block), loop)


def _cleared_behind(bench: Bench, zero: Zero, step: Step) -> bool:
    """The boundary has a clearing of its own: that of each micro-batch only has to go."""
    used = bench.statement(step)
    following = [x for x in used.siblings() if x.start > used.start]
    later = [e for x in following for e in bench.events_in(x) if isinstance(e, Zero)]
    return any(e.site != zero.site and e.optimizer == zero.optimizer for e in later)


def _loader_loop(bench: Bench, step: Step) -> Statement | None:
    """The loop over the loader, if it runs again and again, may end amid a window, and nothing clears before it."""
    guard = bench.guard(step)
    if guard is None or any(isinstance(x.operator, cst.Or) for x in within(guard.node, cst.BooleanOperation)):
        return None
    loops = [x for x in guard.ancestors() if isinstance(x.node, cst.For | cst.While)]
    if len(loops) < 2 or loops[0].owner is not loops[1]:
        return None
    above = [x for x in loops[0].siblings() if x.start < loops[0].start]
    return None if any("zero_grad" in bench.code(x.node) for x in above) else loops[0]


def step_behind(bench: Bench, step: Step, backward: Backward, followers: Sequence[Event]) -> None:
    """The step goes behind the backward, or behind the loop of backwards; what must follow it goes with it."""
    guard = bench.guard(step)
    if guard is not None and not any(guard.holds(x) for x in bench.standing(backward)):
        raise NotFixable("the step would leave its boundary")
    level = len(step.frames) < len(backward.frames)
    # a scaler's update() that is there already must stay behind the scaler's step
    past: tuple[type[Event], ...] = (Unscale, Clip, Edit, Read, Step)
    moved = move(bench, step, after=backward, past=past if step.scaler is not None else (*past, Update), level=level)
    for follower in followers:
        if not any(moved.holds(x) for x in bench.standing(follower)):
            move(bench, follower, after=step, past=(Update,))
