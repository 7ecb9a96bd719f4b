"""Runs statements so that branches are joined: what is known behind them holds whichever was taken."""

from __future__ import annotations

from gradlint.python import syntax as s
from gradlint.python.calls import Arguments
from gradlint.python.contexts import turns_off
from gradlint.python.evaluate import Container, Evaluator, Journal
from gradlint.python.frame import Frame
from gradlint.python.values import Class, Collection, Constant, External, Function, Instance, Rest, Value

#: containers that a branch changed, and what they held at its end
Held = dict[int, tuple[Container, Container]]
Names = dict[str, Value]
#: in so many branches and loops, a further loop is run once: in loops in loops, turns would double again and again
_DEEP = 8


class Joined:
    """Runs a function once for the same arguments."""

    def __init__(self) -> None:
        self._known: dict[object, Value] = {}

    def follow(self, ev: Evaluator, function: Function, node: s.Node, given: Arguments[Value]) -> Value:
        return ev.enter(function, node, given)

    def returned(self, ev: Evaluator, function: Function, node: s.Node) -> Value:
        frame, code = ev.frame, function.node
        assert isinstance(code, s.Def)
        key = (id(code), function.owner, frame.no_grad, frame.state,
               tuple((name, value.signature()) for name, value in frame.names.items()))  # fmt: skip
        known = self._known.get(key)
        if known is None:
            run(ev, code.body)
            known = self._known[key] = ev.joined(frame.returns) if frame.returns else Constant(None)
        return known

    def elsewhere(self, ev: Evaluator, expr: s.Expr, frame: Frame, name: str) -> Value:
        return ev.evaluated(expr, frame)


def run(ev: Evaluator, body: list[s.Stmt]) -> bool:
    """Runs a block; False if its end is not reached."""
    return all(_statement(ev, stmt) for stmt in body)


def _statement(ev: Evaluator, stmt: s.Stmt) -> bool:
    ev.spend()
    match stmt:
        case s.Assign():
            value = ev.ev(stmt.value)
            for target in stmt.targets:
                ev.assign(target, value)
        case s.AugAssign():
            _augmented(ev, stmt)
        case s.ExprStmt():
            ev.ev(stmt.value)
        case s.If():
            return _if(ev, stmt)
        case s.For():
            _for(ev, stmt)
        case s.While():
            ev.ev(stmt.test)
            _turns(ev, stmt.body)
        case s.With():
            return _with(ev, stmt)
        case s.Try():
            return _try(ev, stmt)
        case s.Return():
            if stmt.value is not None:
                ev.frame.returns.append(ev.domain.store(stmt, None, ev.ev(stmt.value)))
            return False
        case s.Jump():
            return False
        case s.Def() | s.Class() | s.Import() | s.Scope():
            ev.declare(stmt)
        case s.Delete():
            for target in stmt.targets:
                _delete(ev, target)
        case _:
            pass
    return True


def _augmented(ev: Evaluator, stmt: s.AugAssign) -> None:
    before, added = ev.ev(stmt.target), ev.ev(stmt.value)
    if isinstance(before, Collection) and stmt.op == "+":
        ev.extend(before, added)
        return
    node = s.Bin(stmt.node, stmt.op, stmt.target, stmt.value)
    ev.assign(stmt.target, ev.domain.operate(node, [before, added]))


def _delete(ev: Evaluator, target: s.Expr) -> None:
    """`del model[-1]`."""
    if isinstance(target, s.Item):
        base, index = ev.ev(target.base), ev.ev(target.index)
        if isinstance(base, Collection) and base.at(index) is not None and isinstance(index, Constant):
            ev.change(base)
            if isinstance(index.value, int):
                del base.items[index.value]
            else:
                del base.entries[str(index.value)]


# -- branches


def _if(ev: Evaluator, stmt: s.If) -> bool:
    holds = ev.domain.truth(ev.ev(stmt.test), stmt)
    if holds is not None:
        return run(ev, stmt.body if holds else stmt.orelse)
    before = ev.frame.names
    went_on, then, held = _branch(ev, stmt.body, before)
    other_went_on, other, other_held = _branch(ev, stmt.orelse, before)
    _settle(ev, held if went_on else {}, other_held if other_went_on else {}, both=went_on and other_went_on)
    if went_on and other_went_on:
        _merge(ev, before, then, other)
    elif went_on or other_went_on:
        before.update(then if went_on else other)
    return went_on or other_went_on


def _branch(ev: Evaluator, body: list[s.Stmt], before: Names) -> tuple[bool, Names, Held]:
    """Runs a branch on copies; what it made of containers is told, and undone."""
    journal: Journal = {}
    ev.journals.append(journal)
    outer, ev.frame.names = ev.frame.names, dict(before)
    went_on = run(ev, body)
    after, ev.frame.names = ev.frame.names, outer
    ev.journals.pop()
    held: Held = {}
    for key, (container, state) in journal.items():
        held[key] = (container, container.copy())
        _restore(container, state)
    return went_on, after, held


def _settle(ev: Evaluator, one: Held, other: Held, *, both: bool) -> None:
    """Containers that a branch changed hold what either may have made of them."""
    for key in [*one, *(key for key in other if key not in one)]:
        container = (one.get(key) or other[key])[0]
        ev.change(container)
        if both:
            now = container.copy()
            _restore(container, _joined(ev, *(branch[key][1] if key in branch else now for branch in (one, other))))
        else:
            _restore(container, (one.get(key) or other[key])[1])


def _restore(container: Container, state: Container) -> None:
    """Puts back what a container held."""
    if isinstance(container, Collection) and isinstance(state, Collection):
        container.items, container.entries = list(state.items), dict(state.entries)
    elif isinstance(container, Instance) and isinstance(state, Instance):
        container.attributes = dict(state.attributes)


def _joined(ev: Evaluator, one: Container, other: Container) -> Container:
    """What a container may hold when it is in one of two states."""
    if isinstance(one, Instance) and isinstance(other, Instance):
        names: Names = {}
        _merge(ev, names, one.attributes, other.attributes)
        return Instance(one.cls, attributes=names)
    assert isinstance(one, Collection)
    assert isinstance(other, Collection)
    entries: Names = {}
    _merge(ev, entries, one.entries, other.entries)
    return Collection(either(ev, one.items, other.items), entries, one.kind)


def either(ev: Evaluator, one: list[Value], other: list[Value]) -> list[Value]:
    """One by one if there are equally many; or else the same beginning, and then any number of what is left."""
    if len(one) == len(other):
        return [a if a is b else ev.domain.join(a, b) for a, b in zip(one, other, strict=True)]
    shared = 0
    while shared < min(len(one), len(other)) and one[shared].signature() == other[shared].signature():
        shared += 1
    rest = [x.value if isinstance(x, Rest) else x for x in (*one[shared:], *other[shared:])]
    return [*one[:shared], Rest(ev.joined(rest))]


def _merge(ev: Evaluator, into: Names, one: Names, other: Names) -> None:
    """What only one branch has is there when it is used."""
    for name in [*one, *(name for name in other if name not in one)]:
        if name in one and name in other:
            into[name] = _either(ev, one[name], other[name])
        else:
            into[name] = one[name] if name in one else other[name]


def _either(ev: Evaluator, one: Value, other: Value) -> Value:
    if one is other:
        return one
    for this, that in ((one, other), (other, one)):
        # `except ImportError: checkpoint = None` takes nothing from the name where it is used
        if isinstance(this, External | Function | Class) and (
            isinstance(that, External) or (isinstance(that, Constant) and that.value is None)
        ):
            return this
    return ev.domain.join(one, other)


# -- loops


def _for(ev: Evaluator, stmt: s.For) -> None:
    turns = ev.domain.iterate(ev.ev(stmt.iterable), stmt.target)
    if turns.whole and not _leaves(stmt.body):
        for value in turns.values:
            ev.assign(stmt.target, value)
            run(ev, stmt.body)
        return
    ev.assign(stmt.target, ev.joined(turns.values))
    _turns(ev, stmt.body)
    run(ev, stmt.orelse)


def _turns(ev: Evaluator, body: list[s.Stmt]) -> None:
    """Any number of turns: once more, so that what one leaves behind meets the next one."""
    for _ in range(2 if len(ev.journals) < _DEEP else 1):
        before = ev.frame.names
        _, after, held = _branch(ev, body, before)
        _settle(ev, held, {}, both=True)
        _merge(ev, before, dict(before), after)


def _leaves(body: list[s.Stmt]) -> bool:
    """`break` or `continue`: not every turn is run to its end."""
    return any(isinstance(stmt, s.Jump) and stmt.kind is not s.Leave.RAISE for stmt in s.walk_stmts(body))


# -- contexts and exceptions


def _with(ev: Evaluator, stmt: s.With) -> bool:
    for item, alias in stmt.items:
        value = ev.ev(item)
        if alias is not None:
            ev.assign(alias, value)
    frame = ev.frame
    outside, frame.no_grad = frame.no_grad, turns_off([x for x, _ in stmt.items], ev.dotted, outside=frame.no_grad)
    went_on = run(ev, stmt.body)
    frame.no_grad = outside
    return went_on


def _try(ev: Evaluator, stmt: s.Try) -> bool:
    before = dict(ev.frame.names)
    went_on = run(ev, stmt.body) and run(ev, stmt.orelse)
    for _, handler in stmt.handlers:
        mended, after, held = _branch(ev, handler, before)
        if mended:
            _merge(ev, ev.frame.names, dict(ev.frame.names) if went_on else after, after)
            _settle(ev, held, {}, both=went_on)
            went_on = True
    return run(ev, stmt.final) and went_on
