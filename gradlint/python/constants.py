"""Constants: computing with them, and finding them where the file itself settles what a name stands for."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from gradlint.python import syntax as s
from gradlint.python.binding import bound_by, last
from gradlint.python.classes import Classes
from gradlint.python.scope import Scope, Scopes

if TYPE_CHECKING:
    from gradlint.python.module import Module

#: a longer chain of names is a circle
_LONGEST = 8
#: the largest exponent that is computed
_HIGHEST = 64
#: what cannot be computed, or must not: no string is built, no power grows
NOT_KNOWN: Final = object()
#: Python's own functions, as far as somebody asks for them
BUILTINS = frozenset({
    "len", "range", "enumerate", "zip", "list", "tuple", "set", "dict", "sum", "max", "min", "abs", "int", "float",
    "bool", "str", "round", "reversed", "sorted", "iter", "next", "map", "filter", "print", "isinstance", "getattr",
    "setattr", "hasattr", "type", "id", "super", "any", "all", "repr", "callable",
    "exit", "quit", "vars", "open", "input",
})  # fmt: skip
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "/": operator.truediv,
    "%": operator.mod, "**": operator.pow,
}  # fmt: skip
_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_CHANGES_ENTRIES = frozenset({"update", "setdefault", "pop", "clear", "popitem"})


def binary(op: str, left: s.ConstValue, right: s.ConstValue) -> object:
    """`left op right` of two numbers."""
    if op not in _ARITHMETIC or not (_is_number(left) and _is_number(right)):
        return NOT_KNOWN
    if op == "**" and isinstance(right, int | float) and abs(right) >= _HIGHEST:
        return NOT_KNOWN
    try:
        found = _ARITHMETIC[op](left, right)
    except (ArithmeticError, ValueError):
        return NOT_KNOWN
    return found if _is_number(found) else NOT_KNOWN


def unary(op: str, value: s.ConstValue) -> object:
    if op == "not":
        return not value
    return binary("*", -1 if op == "-" else 1, value) if op in ("-", "+") else NOT_KNOWN


def compare(op: str, left: s.ConstValue, right: s.ConstValue) -> object:
    """Equality and identity of anything, order of numbers, strings in strings."""
    match op:
        case "==" | "!=":
            return (left == right) == (op == "==")
        case "is" | "is not":
            return (type(left) is type(right) and left == right) == (op == "is")
        case "in" | "not in" if isinstance(left, str) and isinstance(right, str):
            return (left in right) == (op == "in")
        case _ if op in _ORDERS and isinstance(left, int | float) and isinstance(right, int | float):
            return _ORDERS[op](left, right)
        case _:
            return NOT_KNOWN


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def as_float(number: object) -> float | None:
    """A number, but no boolean; None for what is none, and for what no float can hold."""
    if not isinstance(number, int | float) or isinstance(number, bool):
        return None
    try:
        return float(number)
    except OverflowError:
        return None


#: an expression and the scope in which its names are to be looked up
Found = tuple[s.Expr | None, Scope]
#: a name, and the scope that binds it
Place = tuple[str, Scope | None]


class Constants:
    """The scopes of a file, and what is settled in them."""

    def __init__(self, program: Module) -> None:
        self._program = program
        self._scopes = program.once(Scopes)
        self._classes = program.once(Classes)
        #: every assignment to an attribute, by the attribute's name
        self._attributes: dict[str, list[Found]] = {}
        #: entries of dicts that are set or changed later; the key is None where it may be any
        self._changed: dict[Place, list[tuple[str | None, s.Expr | None]]] = {}
        for stmt in program.statements():
            self._index(stmt)

    def expressions(self) -> Iterator[tuple[s.Expr, Scope]]:
        """Every expression of the file, with the scope it is in."""
        for stmt in self._program.statements():
            scope = self._scopes.of(stmt.node)
            for expr in s.expressions(stmt):
                for part in s.walk_expr(expr):
                    yield part, scope

    def value(self, expr: s.Expr | None, scope: Scope, depth: int = 0) -> Found:
        """What an expression stands for, as far as the file settles it: a constant, a dict, a call."""
        while depth < _LONGEST:
            depth += 1
            match expr:
                case s.Name():
                    owner = scope.owner(expr.id)
                    expr, scope = (owner.only(expr.id), owner) if owner is not None else (None, scope)
                case s.Attr():
                    expr, scope = self._attribute(expr, scope, depth)
                case s.Item():
                    expr, scope = self._entry(expr, scope)
                case _:
                    return expr, scope
        return None, scope

    def is_global(self, expr: s.Expr, scope: Scope) -> bool:
        """A name that the module gives its value, and nobody else."""
        return isinstance(expr, s.Name) and scope.owner(expr.id) is self._scopes.module

    def number(self, expr: s.Expr | None, scope: Scope) -> float | None:
        """The number that an expression stands for."""
        found, _ = self.value(expr, scope)
        number = found.value if isinstance(found, s.Const) else None
        return as_float(number)

    def entries(self, expr: s.Expr | None, scope: Scope) -> tuple[dict[str, s.Expr], bool, Scope]:
        """The entries of a dict, whether these are all, and the scope they are written in."""
        found, home = self.value(expr, scope)
        entries: dict[str, s.Expr] = {}
        whole = False
        if isinstance(found, s.Dict):
            entries = {k.value: x for k, x in found.pairs if isinstance(k, s.Const) and isinstance(k.value, str)}
            whole = len(entries) == len(found.pairs)
        elif isinstance(found, s.Call) and s.render(found.func) == "dict":
            entries = {k: x for k, x in found.kwargs.items() if k[:2] != "**"}
            whole = not found.args and not found.starred
        for key, value in self._changed.get(_place(expr, scope), []) if isinstance(expr, s.Name | s.Attr) else ():
            if key is None:
                return {}, False, home
            if key in entries or value is None:
                entries.pop(key, None)
                whole = False
            else:
                entries[key] = value
        return entries, whole, home

    def is_changed(self, display: s.Dict, key: str) -> bool:
        """Somebody sets this key of a dict later, or changes this very dict as a whole."""
        named = {
            _place(target, self._scopes.of(stmt.node))
            for stmt in self._program.statements()
            if isinstance(stmt, s.Assign) and stmt.value is display
            for target in stmt.targets
        }
        return any(
            changed == key or (changed is None and name in named)
            for name, changes in self._changed.items()
            for changed, _ in changes
        )

    def argument(self, call: s.Call, name: str, scope: Scope) -> tuple[s.Expr | None, bool, Scope]:
        """A keyword argument, also out of `**settings`; whether it is known to be absent if it is None; its scope."""
        if name in call.kwargs:
            return call.kwargs[name], False, scope
        hidden = [value for key, value in call.kwargs.items() if key[:2] == "**"]
        absent = not call.starred or bool(hidden)
        for value in hidden:
            entries, whole, home = self.entries(value, scope)
            if name in entries:
                return entries[name], False, home
            absent &= whole
        return None, absent, scope

    # -- attributes and entries

    def _attribute(self, expr: s.Attr, scope: Scope, depth: int) -> Found:
        """`Config.clip`, `self.clip`, where one assignment in the file gives it."""
        owner = self._class_of(expr.base, scope, depth)
        values = self._attributes.get(expr.name, [])
        if owner is None or len(values) > 1:
            return None, scope
        if values:
            return values[0] if values[0][1].cls is owner else (None, scope)
        member = self._classes.own(owner, expr.name)
        if member is None or not isinstance(member.stmt, s.Assign):
            return None, scope
        return member.stmt.value, self._scopes.of(member.stmt.node)

    def _class_of(self, base: s.Expr, scope: Scope, depth: int) -> s.Class | None:
        if isinstance(base, s.Name) and base.id == "self":
            return scope.cls
        known = self._classes.named(base, scope)
        if known is not None:
            return known
        found, home = self.value(base, scope, depth)
        if isinstance(found, s.Call) and not found.args and not found.kwargs:
            return self._classes.named(found.func, home)
        return None

    def _entry(self, expr: s.Item, scope: Scope) -> Found:
        key = expr.index.value if isinstance(expr.index, s.Const) else None
        if not isinstance(key, str) or not isinstance(expr.base, s.Name | s.Attr):
            return None, scope
        entries, _, home = self.entries(expr.base, scope)
        return entries.get(key), home

    # -- the index

    def _index(self, stmt: s.Stmt) -> None:
        scope = self._scopes.of(stmt.node)
        for bound in bound_by(stmt):
            plain = isinstance(stmt, s.Assign) and bound.source is stmt.value
            self._assigned(bound.target, bound.source if plain else None, scope)
        for expr in s.expressions(stmt):
            for part in s.walk_expr(expr):
                if isinstance(part, s.Call) and isinstance(part.func, s.Attr) and part.func.name in _CHANGES_ENTRIES:
                    self._change(part.func.base, scope, None, None)

    def _assigned(self, target: s.Expr, value: s.Expr | None, scope: Scope) -> None:
        if isinstance(target, s.Attr):
            self._attributes.setdefault(target.name, []).append((value, scope))
        elif isinstance(target, s.Item):
            key = target.index.value if isinstance(target.index, s.Const) else None
            self._change(target.base, scope, key if isinstance(key, str) else None, value)

    def _change(self, base: s.Expr, scope: Scope, key: str | None, value: s.Expr | None) -> None:
        self._changed.setdefault(_place(base, scope), []).append((key, value))


def _place(expr: s.Expr, scope: Scope) -> Place:
    """Whose name it is that a dict has: that of a scope; an attribute may be anybody's."""
    return last(expr), scope.owner(expr.id) if isinstance(expr, s.Name) else None
