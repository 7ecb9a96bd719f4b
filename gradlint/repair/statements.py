"""Moves the statement of an event beside that of another, with its comments and its conditions; or takes it away."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Backward, Clip, Event, Read, Schedule, Step, Unscale, Update, Zero
from gradlint.records import dataclass, field
from gradlint.repair.boundary import negated
from gradlint.repair.definitions import leaves_block
from gradlint.repair.document import Leading
from gradlint.repair.imports import drop_with
from gradlint.repair.nodes import NotFixable, within
from gradlint.subjects import Call

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench
    from gradlint.repair.tree import Block, Statement

#: what may travel inside one `if` with an event
_COMPANIONS: dict[type[Event], tuple[type[Event], ...]] = {
    Clip: (Clip, Unscale, Read),
    Unscale: (Unscale, Clip, Read),
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
    past: tuple[type[Event], ...] = (), level: bool = False, unbound: Event | None = None,
) -> Statement:  # fmt: skip
    """The statement of an event goes beside that of another, with its comments and its condition; gives what was moved.

    `past`: behind what does these things, too, if it follows there. `level`: in the block that it is in, behind (or in
    front of) whatever holds the other. `unbound`: not if what this event gives is kept.
    """
    kept = bench.names_in(bench.statement(unbound)).bound if unbound is not None else ()
    if kept:
        raise NotFixable(f"`{min(kept)}` holds the norm before the clip already")
    goal = before or after
    assert goal is not None
    moved, target = _statements(bench, event, goal)
    in_front = before is not None
    reasons = []
    for unit in _units(bench, moved, target, event):
        try:
            anchor = _beside(target, unit) if level else landing(bench, target, unit, goal, in_front=in_front)
            if not in_front:
                anchor = bench.past(anchor, past)
            leave = _checked(bench, event, unit, target, anchor, in_front=in_front)
        except NotFixable as refusal:
            reasons.append(str(refusal))
        else:
            # nothing was changed before this: another way could not start from half of this one
            return _carry(bench, unit, anchor, leave, in_front=in_front)
    raise NotFixable(reasons[0])


def _statements(bench: Bench, event: Event, goal: Event) -> tuple[Statement, Statement]:
    """The statements of both in one function; two on one row are put on rows of their own."""
    depth = bench.common_depth(event, goal)
    here, there = bench.in_frame(event, depth), bench.in_frame(goal, depth)
    for node in (here, there):
        bench.alone(node)
    moved, target = bench.statement(here), bench.statement(there)
    if moved is target:
        raise NotFixable("both are in one statement")
    if depth < len(event.via):
        _check_nothing_else(bench, event, depth)
    return moved, target


@dataclass(slots=True)
class _Leave:
    """What a statement leaves: conditions to be asked anew, from the inside out, and its twins in the other arms."""

    conditions: list[str] = field(default_factory=list)
    twins: list[Statement] = field(default_factory=list)
    #: the steps of other arms, each of which gets a copy in front of it
    copies: list[Statement] = field(default_factory=list)


def _checked(
    bench: Bench, event: Event, unit: Statement, target: Statement, anchor: Statement, *, in_front: bool
) -> _Leave:  # fmt: skip
    """Whether it may go there; refuses with a reason."""
    if anchor.block is unit.block and _adjacent(unit, anchor, in_front):
        raise NotFixable("it stands there already")
    _check_carried(bench, unit, anchor, in_front)
    copies = _other_steps(bench, event, unit, anchor, in_front=in_front)
    if isinstance(event, Unscale):
        _check_no_handler(unit, anchor)
    if isinstance(event, Zero) and not in_front:
        check_not_read(bench, anchor)
    leave = _left(bench, event, unit, target, anchor)
    leave.copies.extend(copies)
    return leave


def _carry(bench: Bench, unit: Statement, anchor: Statement, leave: _Leave, *, in_front: bool) -> Statement:
    lead = Leading.of(unit.node)
    for twin in leave.twins:
        bench.document.take_out(twin)
    bench.document.take_out(unit)
    for condition in leave.conditions:
        unit = bench.document.under(f"if {condition}:", unit)
    for other in leave.copies:
        code = bench.code(unit.node.with_changes(leading_lines=()))
        bench.document.put_before(bench.document.new(code, other.block), other)
    if in_front:
        bench.document.put_before(unit, anchor)
    else:
        # what was a paragraph with a heading stays one
        bench.document.put_after(unit, anchor, gap=bool(lead.own) and bool(lead.rest))
    return unit


def _other_steps(
    bench: Bench, event: Event, unit: Statement, anchor: Statement, *, in_front: bool
) -> list[Statement]:  # fmt: skip
    """What runs on every turn may not come to run in one arm only, where the other arm steps as well.

    A clip is copied in front of the other arm's step; gives these steps.
    """
    found: list[Statement] = []
    inside = anchor
    for owner in anchor.ancestors():
        if owner.holds(unit):
            break
        if isinstance(owner.node, cst.Try | cst.TryStar) and not any(
            isinstance(e, Step | Backward) for e in bench.events_in(anchor)
        ):
            raise NotFixable("it would come to stand in a `try`")
        if isinstance(owner.node, cst.If):
            others = [x for block in owner.blocks if block is not inside.block for x in block.items]
            steps = [x for x in others if re.search(r"\.step\(", bench.code(x.node))]
            copied = isinstance(event, Clip) and in_front and not unit.blocks and inside is anchor
            if steps and not (copied and len(steps) == 1 and not steps[0].blocks and len(owner.blocks) == 2):
                raise NotFixable("it would run in one of two branches only")
            found.extend(steps)
        inside = owner
    return found


def _check_no_handler(unit: Statement, anchor: Statement) -> None:
    """Unscaled gradients whose update is skipped by a handler make every later unscale_ raise."""
    for owner in anchor.ancestors():
        if owner.holds(unit):
            return
        if isinstance(owner.node, cst.Try | cst.TryStar):
            raise NotFixable("a handler could go on without the update")


def check_not_read(bench: Bench, anchor: Statement) -> None:
    """Gradients that are cleared behind this statement are not looked at later in the turn."""
    for item in anchor.loop.leaves() if anchor.loop is not None else ():
        simple = isinstance(item.node, cst.SimpleStatementLine)
        if simple and item.start > anchor.end and re.search(r"\.grad\b", bench.code(item.node)):
            raise NotFixable("the gradients are read behind the place where they would be cleared")


# -- what is moved


def _units(bench: Bench, moved: Statement, target: Statement, event: Event) -> list[Statement]:
    """The statement with the condition (or the loop over parameters) round it; else the statement alone."""
    allowed = _COMPANIONS.get(type(event), (type(event),))
    if moved.blocks and leaves_block(bench.code(moved.node)):
        raise NotFixable("it decides where the loop goes on")
    unit = moved
    for owner in moved.ancestors():
        if owner.holds(target) or not isinstance(owner.node, cst.If | cst.For | cst.With):
            break
        if any(not isinstance(e, allowed) for e in bench.events_in(owner)) or _says_else(bench, owner, allowed):
            break
        if sum(1 for _ in owner.leaves()) > _MOST_COMPANIONS or leaves_block(bench.code(owner.node)):
            break
        if isinstance(owner.node, cst.With) and not all(x.blocks or bench.events_in(x) for x in owner.leaves()):
            break
        unit = owner
    return [unit, moved] if unit is not moved else [moved]


def _says_else(bench: Bench, statement: Statement, allowed: tuple[type[Event], ...]) -> bool:
    """Some arm of it, perhaps one that this path does not take, does what may not be carried along."""
    fine = {_WORDS[kind] for kind in allowed if kind in _WORDS}
    code = bench.code(statement.node)
    return any(re.search(word, code) for word in set(_WORDS.values()) - fine)


def _left(bench: Bench, event: Event, unit: Statement, target: Statement, anchor: Statement) -> _Leave:
    """What the statement leaves on its way out of the blocks that the target is not in."""
    leave = _Leave()
    inside = unit
    for owner in unit.around(target):
        in_body = isinstance(owner.node, cst.Try | cst.TryStar) and inside.block.route == ("body",)
        if in_body and isinstance(event, Zero):
            inside = owner
            continue  # clearing does not fail, and is wanted whatever happens
        if isinstance(owner.node, cst.Try | cst.TryStar | cst.Match):
            raise NotFixable("it would leave its `try` or `match`")
        if isinstance(owner.node, cst.While) and bench.names_read(owner.node.test) & bench.names_bound(unit):
            raise NotFixable("the loop that it would leave ends by what it says")
        if isinstance(owner.node, cst.If):
            twins = _in_all_arms(bench, unit, inside.block, owner)
            turn = _asks_for_turn(owner) and any(x in bench.guards() for x in target.ancestors())
            leave.twins.extend(twins)
            if not twins and not turn:  # `if i % n == 0:` says when, not whether: the boundary says that now
                leave.conditions.append(_condition(bench, owner, inside.block, anchor))
        inside = owner
    return leave


def _asks_for_turn(choice: Statement) -> bool:
    return any(isinstance(x.operator, cst.Modulo) for x in within(choice.node.test, cst.BinaryOperation))


def _in_all_arms(bench: Bench, unit: Statement, arm: Block, choice: Statement) -> list[Statement]:
    """The twins of a statement that stands in every arm: it is moved once, without a condition, and they go."""
    if unit.block is not arm or not isinstance(choice.node.orelse, cst.Else):
        return []
    others = [block for block in choice.blocks if block is not arm]
    twins = [next((x for x in block.items if bench.same([x], [unit])), None) for block in others]
    return [x for x in twins if x is not None] if None not in twins else []


def _condition(bench: Bench, choice: Statement, arm: Block, anchor: Statement) -> str:
    test = choice.node.test
    early, late = (choice, anchor) if choice.start < anchor.start else (anchor, choice)
    bench.check_same_value(test, early, late)
    if arm.route == ("body",):
        return bench.code(test)
    if arm.route == ("orelse", "body") and isinstance(choice.node.orelse, cst.Else):
        return negated(bench, test)
    raise NotFixable("it would leave an `elif`")


# -- where it goes


def landing(bench: Bench, target: Statement, unit: Statement | None, goal: Event, *, in_front: bool) -> Statement:
    """Outside of `if amp: … else: …` and of timers round the target, but inside of the boundary; behind a step,
    inside of a condition that may be one, too: what is asked there changes from turn to turn."""
    guards = bench.guards()
    anchor = target
    for owner in target.ancestors():
        if (
            (unit is not None and owner.holds(unit))
            or owner in guards
            or not isinstance(owner.node, cst.If | cst.For | cst.With)
            or (isinstance(goal, Step) and not in_front and asks_of_turn(bench, owner))
        ):
            break
        makes = any(isinstance(e, Backward) for e in bench.events_in(owner))
        if makes and isinstance(owner.node, cst.For):
            break
        # both arms make and use gradients: behind both is as good as behind one, in front of both is too early
        both = isinstance(owner.node, cst.If) and owner.node.orelse is not None and not in_front
        if makes and not isinstance(goal, Backward) and not both:
            break
        if isinstance(owner.node, cst.With) and "accumulate" in bench.code(owner.node.items[0].item):
            break
        anchor = owner
    return anchor


def asks_of_turn(bench: Bench, owner: Statement) -> bool:
    """Its answer may be another one in each turn, and is not whether a batch is any good; where both arms step, it does
    not say when."""
    if not isinstance(owner.node, cst.If) or owner.loop is None or asks_of_batch(bench, owner):
        return False
    if len(owner.blocks) > 1 and all(any(".step(" in bench.code(x.node) for x in b.items) for b in owner.blocks):
        return False
    bound = {name for x in owner.loop.leaves() for name in bench.names_in(x).bound}
    return bool(bench.names_read(owner.node.test) & bound)


def asks_of_batch(bench: Bench, owner: Statement) -> bool:
    """Whether this batch is any good."""
    return re.search(r"(?i)nan|inf\b|isinf|finite|skip|valid|loss", bench.code(owner.node.test)) is not None


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
    mine = bench.all_names(unit)
    low, high = unit.end, anchor.start if in_front else anchor.end
    if anchor.start < unit.start:
        low, high = anchor.start if in_front else anchor.end, unit.start
    crossed = [x for x in bench.document.between(low, high) if not x.holds(unit) and not unit.holds(x)]
    for other in crossed:
        mine.check_apart(bench.names_in(other))
        if isinstance(other.node, cst.FunctionDef | cst.ClassDef):
            raise NotFixable("a definition stands in between")


def move_all(bench: Bench, events: Sequence[Event], before: Event) -> None:
    """Several statements, in their order; what went along with the first is not moved again."""
    moved: list[Statement] = []
    for event in events:
        if not any(unit.holds(x) for unit in moved for x in bench.standing(event)):
            moved.append(move(bench, event, before=before))


# -- what is taken away


def delete(bench: Bench, event: Event | Call, allowed: Callable[[Event], bool] | None = None, outer: int = 0) -> None:
    """Takes the statement of an event, or a call that is one, away; with the loop or condition round it that does
    only `allowed` things.

    `outer`: that of the call that led there, so many functions out.
    """
    if isinstance(event, Call):
        statement = bench.alone(event)
        if not isinstance(statement.small, cst.Expr) or bench.code(statement.small) != bench.code(event):
            raise NotFixable("it is a part of a statement that does something else, too")
        _take_away(bench, statement)
        return
    statement = bench.alone(bench.outer(event, outer))
    if outer:
        if not _does_only(bench, statement, allowed):
            raise NotFixable("the function that does it does something else, too")
        _check_nothing_else(bench, event, len(event.via) - outer)
    if not outer and event.via and callers(bench, event) > 1:
        raise NotFixable("the function that does it is called from elsewhere, too")
    for owner in list(statement.ancestors()) if allowed else ():
        if not isinstance(owner.node, cst.If | cst.For | cst.With):
            break
        simple = [x for x in owner.leaves() if not x.blocks]
        if not all(_does_only(bench, x, allowed) for x in simple):
            break
        statement = owner
    _take_away(bench, statement)


def _does_only(bench: Bench, statement: Statement, allowed: Callable[[Event], bool] | None) -> bool:
    events = bench.events_in(statement)
    if bench.code(statement.node) in ("continue", "pass"):
        return True  # `if p.grad is None: continue`
    return bool(events) and allowed is not None and all(allowed(e) for e in events)


def callers(bench: Bench, event: Event) -> int:
    home = bench.statement(event).function
    name = home.node.name.value if home is not None else ""
    return sum(bench.code(call.func).rpartition(".")[2] == name for call in bench.calls(name))


def _take_away(bench: Bench, statement: Statement) -> None:
    """Removes a statement, and the imports that only it used; that no name is missed is checked for every fix."""
    drop_with(bench, statement.node)
    bench.document.take_out(statement)


# -- what else is done

#: calls that nobody misses where they do not happen, or happen less often
_IDLE = frozenset({
    "parameters", "named_parameters", "modules", "children", "items", "keys", "values", "get", "len", "list", "tuple",
    "set", "dict", "filter", "map", "zip", "enumerate", "range", "isinstance", "hasattr", "getattr", "callable",
    "bool", "int", "float", "str", "abs", "max", "min", "sum", "all", "any", "norm", "stack", "item", "detach",
    "clone", "tolist", "is_enabled", "get_scale", "nullcontext", "autocast", "no_grad", "isfinite", "isnan", "isinf",
    "named_children",
    "get_world_size", "get_rank", "size", "numel", "dim",
})  # fmt: skip


def _check_nothing_else(bench: Bench, event: Event, depth: int) -> None:
    """The call that leads to an event, so many calls inside, does nothing beside events: what a function logs,
    counts or keeps would happen elsewhere, or less often. (What becomes of the events is tried.)"""
    places = [bench.node(site) for site in event.places]
    caller = bench.statement(places[depth])
    _check_idle(bench, caller)
    if bench.names_bound(caller):
        _check_result(bench, event)
    for inner in places[depth + 1 :]:
        home = bench.statement(inner).function
        for statement in home.leaves() if home is not None else ():
            if statement is not home:
                _check_idle(bench, statement)


def _check_result(bench: Bench, event: Event) -> None:
    """What the function of an event gives back is what the event gives, such as a norm."""
    home = bench.statement(event).function
    made = bench.node(event)
    names = bench.names_in(bench.statement(event)).bound
    for node in within(home.node, cst.Return) if home is not None else ():
        value = node.value
        if value is not None and value is not made and not (isinstance(value, cst.Name) and value.value in names):
            raise NotFixable("the function that does it gives something else back")


def _check_idle(bench: Bench, statement: Statement) -> None:
    sites = {site for e in bench.events for site in e.places}
    tops = [node for node in map(bench.node, sites) if bench.document.at(node) is statement]
    mine = {id(call) for top in tops for call in within(top, cst.Call)}
    parts = statement.header
    keeps = not tops and any(_is_kept(x) for part in parts for x in part.children)
    other = [x for part in parts for x in within(part, cst.Call) if id(x) not in mine]
    if keeps or any(bench.code(x.func).rpartition(".")[2] not in _IDLE for x in other):
        raise NotFixable("the function that does it does something else, too")


def _is_kept(part: cst.CSTNode) -> bool:
    """A part of a line that does something which outlives the function, or ends it early."""
    targets: list[cst.CSTNode] = []
    if isinstance(part, cst.Assign):
        targets = [x.target for x in part.targets]
    elif isinstance(part, cst.AugAssign | cst.AnnAssign):
        targets = [part.target]
    outlives = any(isinstance(x, cst.Attribute | cst.Subscript) for x in targets)
    return outlives or isinstance(part, cst.Global | cst.Nonlocal | cst.Raise | cst.Assert | cst.Del)
