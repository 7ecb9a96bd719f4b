"""Follows what a method returns as its loss to the divisions it is made with, for trainers that run the backward."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.python import syntax as s
from gradlint.python.binding import own_statements
from gradlint.records import dataclass

#: methods that leave the size of a loss to what went in
_THROUGH = frozenset({"mean", "sum", "float", "to", "squeeze", "contiguous"})


@dataclass(frozen=True, slots=True)
class Division:
    """`loss / n` or `loss /= n`."""

    loss: s.Expr
    divisor: s.Expr


def divisions(method: s.Def) -> Iterator[Division]:
    """The divisions that the returned loss has gone through; those of logged numbers are left out."""
    own = list(own_statements(method.body))
    follow = _Follower(own)
    for stmt in own:
        if isinstance(stmt, s.Return) and stmt.value is not None:
            yield from follow.loss(stmt.value)


def multiplies(method: s.Def, name: str) -> bool:
    """Somewhere a factor of this name undoes, or may undo, a division."""
    for stmt in s.walk_stmts(method.body):
        if isinstance(stmt, s.AugAssign) and stmt.op == "*" and name in s.render(stmt.value):
            return True
        for expr in s.expressions(stmt):
            for part in s.walk_expr(expr):
                if isinstance(part, s.Bin) and part.op == "*" and name in s.render(part):
                    return True
    return False


class _Follower:
    """Names of one function, each followed once."""

    def __init__(self, statements: list[s.Stmt]) -> None:
        self._statements = statements
        self._seen: set[str] = set()

    def loss(self, expr: s.Expr) -> Iterator[Division]:
        match expr:
            case s.Name():
                yield from self._name(expr.id)
            case s.IfExp():
                yield from self.loss(expr.then)
                yield from self.loss(expr.other)
            case s.Sequence() if expr.kind == "tuple" and expr.items:
                yield from self.loss(expr.items[0])  # `return loss, outputs`
            case s.Dict():
                for key, value in expr.pairs:
                    if isinstance(key, s.Const) and key.value == "loss":
                        yield from self.loss(value)
            case s.Bin() if expr.op == "/":
                yield Division(expr.left, expr.right)
                yield from self.loss(expr.left)
            case s.Bin() if expr.op == "*":
                yield from _as_division(expr.left, expr.right)
                yield from _as_division(expr.right, expr.left)
                yield from self.loss(expr.left)
                yield from self.loss(expr.right)
            case s.Call() if isinstance(expr.func, s.Attr) and expr.func.name in _THROUGH:
                yield from self.loss(expr.func.base)
            case _:
                return  # of a sum only some terms may be divided

    def _name(self, name: str) -> Iterator[Division]:
        if name in self._seen:
            return
        self._seen.add(name)
        for stmt in self._statements:
            match stmt:
                case s.Assign() if any(isinstance(t, s.Name) and t.id == name for t in stmt.targets):
                    yield from self.loss(stmt.value)
                case s.AugAssign() if isinstance(stmt.target, s.Name) and stmt.target.id == name:
                    if stmt.op == "/":
                        yield Division(stmt.target, stmt.value)
                case _:
                    pass


def _as_division(loss: s.Expr, factor: s.Expr) -> Iterator[Division]:
    """`loss * 0.25` is a division by 4."""
    value = factor.value if isinstance(factor, s.Const) else None
    if isinstance(value, float) and 0 < value < 1 and (1 / value).is_integer():
        yield Division(loss, s.Const(factor.node, int(1 / value)))
