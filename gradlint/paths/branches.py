"""What hangs on a condition: whether its blocks can bring events, change what events mean, or do neither."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from gradlint.knowledge import naming
from gradlint.knowledge.words import EVENT_METHODS
from gradlint.python import syntax as s
from gradlint.python.module import Module
from gradlint.python.usage import Use, last_name, named
from gradlint.records import dataclass

#: the methods that are events whatever they are called on; `update` is one of a gradient scaler only
_EVENTS = EVENT_METHODS - {"update"}
#: events whose object tells which gradients they are about
_ON_OBJECTS = EVENT_METHODS - {"backward", "scale"}
#: methods and functions that keep what they are given
_KEEPS = {"append", "extend", "insert", "add", "setdefault", "setattr", "register_buffer", "add_module"}
#: said of everything
_USUAL = {"self", "torch", "nn"}


class Weight(enum.IntEnum):
    """What a block can do."""

    NOTHING = 0
    #: it changes what is known of things and contexts, which matters to the events that come later
    STATE = 1
    #: it holds events, or decides whether others happen
    EVENTS = 2


@dataclass(slots=True)
class _Code:
    """What stands in a piece of code itself, and the functions of the file that it calls."""

    events: bool
    contexts: bool
    callees: tuple[s.Def, ...]


class Branches:
    """The weights of a program's blocks; ask `program.once(Branches)`."""

    def __init__(self, program: Module) -> None:
        self._program = program
        self._weights: dict[int, Weight] = {}
        self._codes: dict[int, _Code] = {}
        #: blocks that something is known of: while they are kept, their ids are theirs
        self._remembered: list[list[s.Stmt]] = []
        self._scaler = any(map(naming.SCALER.search, program.all_words.seen))
        self._names: tuple[set[str], set[str]] | None = None
        self._idle: dict[int, bool] = {}
        self._switches: set[str] | None = None

    def switches(self) -> set[str]:
        """The texts of flags that somewhere choose between a scaler and doing without one: they are switches for mixed
        precision whatever they are called, and wherever else they are asked."""
        if self._switches is None:
            self._switches = set(self._choosing()) if self._program.all_words.scaler else set()
        return self._switches

    def _choosing(self) -> Iterator[str]:
        words = self._program.words
        for stmt in self._program.statements():
            if isinstance(stmt, s.If) and stmt.orelse:
                test, then, other = stmt.test, words(stmt.body), words(stmt.orelse)
                if isinstance(test, s.Unary) and test.op == "not":
                    test, then, other = test.value, other, then
                if isinstance(test, s.Name | s.Attr) and then.scaler and other.events and not other.scaler:
                    yield s.render(test)

    def weight(self, body: list[s.Stmt]) -> Weight:
        found = self._weights.get(id(body))
        if found is None:
            found = self._weights[id(body)] = self._weigh(body)
            self._remembered.append(body)
        return found

    def idle(self, function: s.Def) -> bool:
        """Nothing happens in it, and it leaves no trace: it prints and counts, or hands on what a loop is given."""
        found = self._idle.get(function.node)
        if found is None:
            self._idle[function.node] = False  # while it is asked about: it may call itself
            found = not any(self._holds(function.body)) and (function.generator or self._traceless(function.body))
            self._idle[function.node] = found
        return found

    def _traceless(self, body: list[s.Stmt]) -> bool:
        """It gives nothing back and keeps nothing, nor does anything that it calls."""
        for stmt in s.walk_stmts(body):
            if isinstance(stmt, s.Return) and stmt.value is not None:
                return False
            if isinstance(stmt, s.AugAssign) and not isinstance(stmt.target, s.Name):
                return False
            if isinstance(stmt, s.Assign) and not all(isinstance(target, s.Name) for target in stmt.targets):
                return False
        if not self._program.own_words(body).called.isdisjoint(_KEEPS):
            return False
        return all(self._program.owner(d.node).once(Branches).idle(d) for d in self._program.callees.under(body))

    def _weigh(self, body: list[s.Stmt]) -> Weight:
        if not body:
            return Weight.NOTHING
        events, contexts = self._holds(body)
        if events:
            return Weight.EVENTS
        assigned = self._program.assigned(body)
        deciding, strong = self._strong_names()
        if assigned & deciding:
            return Weight.EVENTS
        return Weight.STATE if contexts or assigned & strong else Weight.NOTHING

    def _holds(self, body: list[s.Stmt]) -> tuple[bool, bool]:
        """Whether events, and contexts, are in a block or in a function that it comes by."""
        waiting, seen = [self._code(body)], {id(body)}
        contexts = False
        while waiting:
            code = waiting.pop()
            if code.events:
                return True, True
            contexts |= code.contexts
            for definition in code.callees:
                if id(definition.body) not in seen:
                    seen.add(id(definition.body))
                    waiting.append(self._code(definition.body))
        return False, contexts

    def _code(self, body: list[s.Stmt]) -> _Code:
        found = self._codes.get(id(body))
        if found is None:
            words = self._program.own_words(body)
            events = "grad" in words.seen or not words.called.isdisjoint(_EVENTS)
            # where there are events, nobody asks for more
            events = events or ("update" in words.called and any(map(self._updates_scaler, _calls(body))))
            callees = () if events else self._program.callees.under(body)
            found = self._codes[id(body)] = _Code(events, words.contexts, callees)
            self._remembered.append(body)
        return found

    def _updates_scaler(self, call: s.Call) -> bool:
        """`scaler.update()`; not `meter.update(loss, n)`, `ema.update(model)`, `options.update(lr=…)`."""
        func = call.func
        if not isinstance(func, s.Attr) or func.name != "update" or not self._scaler:
            return False
        plain = not call.args and call.kwargs.keys() <= {"new_scale"}
        return plain or bool(naming.SCALER.search(naming.last(s.render(func.base))))

    # -- names

    def _strong_names(self) -> tuple[set[str], set[str]]:
        """Names that decide whether there are events; and names of optimizers, scalers, contexts, windows, too."""
        if self._names is None:
            deciding: set[str] = set()
            strong = set(self._program.usage.texts(Use.MODULUS))
            for stmt in self._program.statements():
                if isinstance(stmt, s.If | s.While):
                    held = [self._holds(block) for block in s.blocks(stmt)]
                    if any(events for events, _ in held):
                        deciding |= _identifiers(stmt.test)
                    elif any(contexts for _, contexts in held):
                        strong |= _identifiers(stmt.test)
                for expr in s.expressions(stmt):
                    if not self._program.said(expr).callees.isdisjoint(_ON_OBJECTS):
                        strong |= self._objects(expr)
                if isinstance(stmt, s.With):
                    for item, _ in stmt.items:
                        strong |= _identifiers(item.func if isinstance(item, s.Call) else item)
            self._names = deciding - _USUAL, strong - _USUAL
        return self._names

    def _objects(self, expr: s.Expr) -> set[str]:
        found: set[str] = set()
        for part in s.walk_expr(expr):
            if isinstance(part, s.Call) and isinstance(part.func, s.Attr) and part.func.name in _ON_OBJECTS:
                if part.func.name != "update" or self._updates_scaler(part):
                    found |= _identifiers(part.func.base)
        return found


def _identifiers(expr: s.Expr) -> set[str]:
    return {last_name(part) for part in named(expr)}


def _calls(body: list[s.Stmt]) -> Iterator[s.Call]:
    for stmt in s.walk_stmts(body):
        for expr in s.expressions(stmt):
            yield from (part for part in s.walk_expr(expr) if isinstance(part, s.Call))
