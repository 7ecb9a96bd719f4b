"""Moves the statement of an event beside that of another, with its comments and under its conditions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Backward, Clip, Event, Read, Schedule, Step, Unscale, Update, Zero
from gradlint.rewrite.bench import NotFixable
from gradlint.rewrite.boundary import negated
from gradlint.rewrite.flow import leaves_block, merged

if TYPE_CHECKING:
    from gradlint.rewrite.bench import Bench
    from gradlint.rewrite.document import Block, Statement

#: what may travel inside one `if` with an event
_COMPANIONS: dict[type[Event], tuple[type[Event], ...]] = {
    Clip: (Clip, Unscale, Read),
    Step: (Step, Update, Unscale, Clip),
}
#: what the code of an event looks like, for the arms of conditions that this path does not take
_WORDS: dict[type[Event], str] = {
    Backward: r"\bbackward\(",
    Step: r"\.step\(",
    Schedule: r"\.step\(",
    Zero: r"\bzero_grad\(",
    Unscale: r"\bunscale_\(",
    Clip: r"\bclip_\w*\(",
}
#: an `if` with more statements than this is not taken along as the condition of one of them
_MOST_COMPANIONS = 6


def move(
    bench: Bench, event: Event, *, before: Event | None = None, after: Event | None = None,
    past: tuple[type[Event], ...] = (), level: bool = False,
) -> None:  # fmt: skip
    """See `remedy.move`."""
    goal = before or after
    assert goal is not None
    moved, target = bench.pair(event, goal)
    if moved is target:
        raise NotFixable("both are in one statement")
    unit = _unit(bench, moved, target, event)
    anchor = _beside(target, unit) if level else _landing(bench, target, unit, goal)
    if after is not None:
        anchor = bench.past(anchor, past)
    in_front = before is not None
    if anchor.block is unit.block and _adjacent(unit, anchor, in_front):
        raise NotFixable("it stands there already")
    _check_carried(bench, unit, anchor, in_front)
    conditions = _conditions(bench, unit, target, anchor)
    bench.document.take_out(unit)
    for condition in conditions:
        unit = bench.document.under(f"if {condition}:", unit)
    if in_front:
        bench.document.put_before(unit, anchor)
    else:
        bench.document.put_after(unit, anchor)


# -- what is moved


def _unit(bench: Bench, moved: Statement, target: Statement, event: Event) -> Statement:
    """The condition (or the loop over parameters) round a statement goes with it."""
    allowed = _COMPANIONS.get(type(event), (type(event),))
    unit = moved
    for owner in moved.ancestors():
        if owner.holds(target) or not isinstance(owner.node, cst.If | cst.For | cst.With):
            break
        if any(not isinstance(e, allowed) for e in bench.events_in(owner)) or _says_else(bench, owner, allowed):
            break
        if sum(1 for _ in owner.leaves()) > _MOST_COMPANIONS:
            break
        unit = owner
    if unit is not moved and leaves_block(bench.code(unit.node)):
        return moved
    return unit


def _says_else(bench: Bench, statement: Statement, allowed: tuple[type[Event], ...]) -> bool:
    """Some arm of it, perhaps one that this path does not take, does what may not be carried along."""
    fine = {_WORDS[kind] for kind in allowed if kind in _WORDS}
    code = bench.code(statement.node)
    return any(re.search(word, code) for word in set(_WORDS.values()) - fine)


def _conditions(bench: Bench, unit: Statement, target: Statement, anchor: Statement) -> list[str]:
    """What has to be asked anew where the statement goes, from the inside out: it leaves these `if`s."""
    found: list[str] = []
    inside = unit
    for owner in list(unit.ancestors()):
        if owner.holds(target) or isinstance(owner.node, cst.FunctionDef):
            break
        if isinstance(owner.node, cst.Try | cst.TryStar | cst.Match):
            raise NotFixable("it would leave its `try` or `match`")
        if isinstance(owner.node, cst.If) and not _in_all_arms(bench, unit, inside.block, owner):
            found.append(_condition(bench, owner, inside.block, anchor))
        inside = owner
    return found


def _in_all_arms(bench: Bench, unit: Statement, arm: Block, choice: Statement) -> bool:
    """The same statement stands in every arm: it is moved once, without a condition, and the others go."""
    if unit.block is not arm or not isinstance(choice.node.orelse, cst.Else):
        return False
    twins = []
    for other in choice.blocks:
        if other is not arm:
            twin = next((x for x in other.items if bench.same([x], [unit])), None)
            if twin is None:
                return False
            twins.append(twin)
    for twin in twins:
        bench.document.take_out(twin)
    return True


def _condition(bench: Bench, choice: Statement, arm: Block, anchor: Statement) -> str:
    test = choice.node.test
    early, late = (choice, anchor) if choice.first < anchor.first else (anchor, choice)
    bench.check_same_value(test, early, late)
    if arm.route == ("body",):
        return bench.code(test)
    if arm.route == ("orelse", "body") and isinstance(choice.node.orelse, cst.Else):
        return negated(bench, test)
    raise NotFixable("it would leave an `elif`")


# -- where it goes


def _landing(bench: Bench, target: Statement, unit: Statement, goal: Event) -> Statement:
    """Outside of `if amp: … else: …` round the target, but inside of the boundary."""
    guard = bench.document.at(bench.node(goal.guard)) if isinstance(goal, Step) and goal.guard is not None else None
    anchor = target
    for owner in target.ancestors():
        if owner.holds(unit) or owner is guard or not isinstance(owner.node, cst.If | cst.For):
            break
        if isinstance(owner.node, cst.For) and any(isinstance(e, Backward) for e in bench.events_in(owner)):
            break
        anchor = owner
    return anchor


def _beside(target: Statement, unit: Statement) -> Statement:
    """The statement of the unit's own block that holds the target."""
    for owner in (target, *target.ancestors()):
        if owner.block is unit.block:
            return owner
    raise NotFixable("they are in different blocks")


def _adjacent(unit: Statement, anchor: Statement, in_front: bool) -> bool:
    siblings = unit.siblings()
    return siblings.index(anchor) - siblings.index(unit) == (1 if in_front else -1)


def _check_carried(bench: Bench, unit: Statement, anchor: Statement, in_front: bool) -> None:
    """No name may get another value on the way."""
    mine = merged(bench.names_in(x) for x in unit.leaves())
    low, high = (unit.last, anchor.first if in_front else anchor.last + 1)
    if anchor.first < unit.first:
        low, high = (anchor.first - 1 if in_front else anchor.last, unit.first)
    crossed = [x for x in bench.document.between(low, high) if not x.holds(unit) and not unit.holds(x)]
    for other in crossed:
        clash = mine.clash(bench.names_in(other))
        if clash:
            raise NotFixable(f"`{min(clash)}` would change its meaning on the way")
        if other.kind in (cst.FunctionDef, cst.ClassDef):
            raise NotFixable("a definition stands in between")
