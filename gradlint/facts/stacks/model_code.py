"""Follows statements and expressions of the code that builds and runs a model; classes and calls are the subclass's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from gradlint.facts.stacks.folding import compare, compute, index, items_of, sliced, truth, unary
from gradlint.facts.stacks.wiring import (
    END,
    FRESH,
    SETTING,
    UNKNOWN,
    Instance,
    Known,
    Named,
    Sequential,
    Setting,
    Several,
    Tensor,
    Value,
    Wiring,
    joined,
)
from gradlint.knowledge.layers import ASIDE
from gradlint.python import syntax as s
from gradlint.python.module import Program
from gradlint.records import dataclass, field

#: expressions that are looked at in one file
_BUDGET = 40_000

Names = dict[str, Value]


class TooMuch(Exception):  # noqa: N818  # not an error: the file is left alone
    """The budget is spent."""


@dataclass(slots=True)
class Frame:
    """One call that is being followed: its names (`self.x` is one, too), and what it gives back."""

    names: Names
    cls: s.Class | None = None
    returned: list[Value] = field(default_factory=list)
    #: it runs a model; elsewhere a difference is a loss and says nothing of the model's branches
    forward: bool = False

    @property
    def result(self) -> Value:
        """What it gives back, whichever way it went."""
        if not self.returned:
            return Known(None)
        value = self.returned[0]
        for other in self.returned[1:]:
            value = joined(value, other)
        return value


class ModelCode(ABC):
    """The interpreter's statements and expressions."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.found = Wiring()
        self.globals: Names = {}
        self._steps = 0

    @abstractmethod
    def call(self, call: s.Call, frame: Frame) -> Value: ...

    # -- statements

    def run(self, body: list[s.Stmt], frame: Frame) -> bool:
        """Runs a block; True if it never comes to its end."""
        return any(self._statement(stmt, frame) for stmt in body)

    def _statement(self, stmt: s.Stmt, frame: Frame) -> bool:
        match stmt:
            case s.Assign():
                value = self.expr(stmt.value, frame)
                for target in stmt.targets:
                    self.store(target, value, frame)
            case s.AugAssign():
                value = self._operate(stmt.op, self.expr(stmt.target, frame), self.expr(stmt.value, frame), frame)
                self.store(stmt.target, value, frame)
            case s.ExprStmt():
                self.expr(stmt.value, frame)
            case s.Return():
                frame.returned.append(self.expr(stmt.value, frame) if stmt.value is not None else Known(None))
                return True
            case s.Jump():
                return stmt.kind is s.Leave.RAISE
            case s.If():
                return self._if(stmt, frame)
            case s.For():
                return self._for(stmt, frame)
            case s.While():
                self._run_once(stmt.body, frame)
            case s.With():
                return self.run(stmt.body, frame)
            case s.Try():
                return self.run([*stmt.body, *stmt.orelse, *stmt.final], frame)
            case _:
                pass
        return False

    def store(self, target: s.Expr, value: Value, frame: Frame) -> None:
        match target:
            case s.Name() | s.Attr():
                frame.names[s.render(target)] = value
            case s.Sequence():
                items = value.items if isinstance(value, Several) else ()
                rest = FRESH if isinstance(value, Tensor) else UNKNOWN
                for n, part in enumerate(target.items):
                    self.store(part, items[n] if len(items) == len(target.items) else rest, frame)
            case s.Item():
                self._store_item(target, value, frame)
            case _:
                pass

    def _store_item(self, target: s.Item, value: Value, frame: Frame) -> None:
        """`layers["fc"] = …` of an OrderedDict makes it longer; a list's item is another one now."""
        name = s.render(target.base)
        known = frame.names.get(name)
        if isinstance(known, Several) and (isinstance(target.index, s.Other) or _is_text(target.index)):
            frame.names[name] = Several((*known.items, value))
        elif name in frame.names:
            frame.names[name] = FRESH if isinstance(known, Tensor) else UNKNOWN

    def _if(self, stmt: s.If, frame: Frame) -> bool:
        known = truth(self.expr(stmt.test, frame))
        if known is not None:
            return self.run(stmt.body if known else stmt.orelse, frame)
        before = dict(frame.names)
        left = self.run(stmt.body, frame)
        then, frame.names = frame.names, before
        right = self.run(stmt.orelse, frame)
        if left and right:
            return True
        if right:
            frame.names = then
        elif not left:
            other = frame.names
            # a layer that only one branch makes may be there when it is used
            frame.names = {
                name: joined(then[name], other[name]) if name in then and name in other else UNKNOWN
                for name in {*then, *other}
            }
        return False

    def _for(self, stmt: s.For, frame: Frame) -> bool:
        turns = items_of(self.expr(stmt.iterable, frame))
        leaves = any(isinstance(x, s.Jump) and x.kind is not s.Leave.RAISE for x in s.walk_stmts(stmt.body))
        if turns is None or leaves or END in turns:
            self.store(stmt.target, UNKNOWN, frame)
            self._run_once(stmt.body, frame)
            return False
        for value in turns:
            self.store(stmt.target, value, frame)
            if self.run(stmt.body, frame):
                return True
        return False

    def _run_once(self, body: list[s.Stmt], frame: Frame) -> None:
        """A loop with an unknown number of turns; each step of a recurrent net stands for itself."""
        self._forget(body, frame)
        self.run(body, frame)
        self._forget(body, frame)

    @staticmethod
    def _forget(body: list[s.Stmt], frame: Frame) -> None:
        for stmt in s.walk_stmts(body):
            targets = stmt.targets if isinstance(stmt, s.Assign) else []
            if isinstance(stmt, s.AugAssign):
                targets = [stmt.target]
            elif isinstance(stmt, s.ExprStmt) and isinstance(stmt.value, s.Call):
                targets = [stmt.value.func.base] if isinstance(stmt.value.func, s.Attr) else []
            for target in targets:
                for part in target.items if isinstance(target, s.Sequence) else [target]:
                    name = s.render(part.base if isinstance(part, s.Item) else part)
                    if name in frame.names and name != "self":
                        frame.names[name] = _forgotten(frame.names[name])

    # -- expressions

    def expr(self, expr: s.Expr, frame: Frame) -> Value:
        self._steps += 1
        if self._steps > _BUDGET:
            raise TooMuch
        match expr:
            case s.Const():
                return Known(expr.value)
            case s.Name() | s.Attr():
                return self._name(expr, frame)
            case s.Call():
                return self.call(expr, frame)
            case s.Bin():
                return self._operate(expr.op, self.expr(expr.left, frame), self.expr(expr.right, frame), frame)
            case s.Unary():
                return unary(expr.op, self.expr(expr.value, frame))
            case s.Compare():
                return compare(expr.op, self.expr(expr.left, frame), self.expr(expr.right, frame))
            case s.IfExp():
                known = truth(self.expr(expr.test, frame))
                if known is not None:
                    return self.expr(expr.then if known else expr.other, frame)
                return joined(self.expr(expr.then, frame), self.expr(expr.other, frame))
            case s.Sequence():
                return Several(tuple(self.spread(expr.items, frame)))
            case s.Item():
                return self._item(expr, frame)
            case s.Comprehension():
                return self._comprehension(expr, frame)
            case s.Walrus():
                value = self.expr(expr.value, frame)
                self.store(expr.target, value, frame)
                return value
            case _:
                return UNKNOWN

    def _name(self, expr: s.Name | s.Attr, frame: Frame) -> Value:
        text = s.render(expr)
        for names in (frame.names, self.globals):
            if text in names:
                return names[text]
        if isinstance(expr, s.Attr):
            base = self.expr(expr.base, frame)
            if isinstance(base, Tensor):
                return SETTING if expr.name in ASIDE else base
            if isinstance(base, Setting):
                return SETTING
            if isinstance(base, Instance):
                return dict(base.attributes).get(f"self.{expr.name}", UNKNOWN)
        dotted = self.program.dotted(expr)
        return Named(dotted, expr.node) if dotted.startswith("torch.") else UNKNOWN

    def _operate(self, op: str, left: Value, right: Value, frame: Frame) -> Value:
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return self.merge([left, right], frame)
        return compute(op, left, right)

    def merge(self, values: list[Value], frame: Frame) -> Value:
        """Tensors become one; a number that is added or multiplied leaves a tensor what it is."""
        tensors = [x for x in values if not isinstance(x, Known | Setting)]
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return tensors[0]
        return self.found.merge(tensors) if frame.forward else FRESH

    def _item(self, expr: s.Item, frame: Frame) -> Value:
        base = self.expr(expr.base, frame)
        if isinstance(base, Tensor | Setting):
            return base
        if isinstance(expr.index, s.Other):
            return sliced(base, [self.expr(x, frame) for x in expr.index.children])
        return index(base, self.expr(expr.index, frame))

    def _comprehension(self, expr: s.Comprehension, frame: Frame) -> Value:
        turns = items_of(self.expr(expr.iterable, frame))
        if turns is None or END in turns or expr.conditions or expr.kind == "dict":
            return UNKNOWN
        inner = Frame(dict(frame.names), frame.cls, forward=frame.forward)
        found: list[Value] = []
        for value in turns:
            self.store(expr.target, value, inner)
            element = self.expr(expr.element, inner)
            if isinstance(expr.element, s.Comprehension) and expr.element.kind == "inner":
                found.extend(element.items if isinstance(element, Several) else [END])
            else:
                found.append(element)
        return Several(tuple(found))

    def spread(self, items: list[s.Expr], frame: Frame) -> Iterator[Value]:
        """The values of a display or of arguments, `*stars` taken apart."""
        for item in items:
            if isinstance(item, s.Star):
                yield from items_of(self.expr(item.value, frame)) or [END]
            else:
                yield self.expr(item, frame)


def _is_text(expr: s.Expr) -> bool:
    return isinstance(expr, s.Const) and isinstance(expr.value, str)


def _forgotten(value: Value) -> Value:
    """What is left of a value that a loop may have changed."""
    match value:
        case Tensor():
            return FRESH
        case Sequential():
            return Sequential((*value.parts, END))
        case Several():
            return Several((*value.items, END))
        case _:
            return UNKNOWN
