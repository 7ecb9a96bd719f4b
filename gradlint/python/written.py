"""Names as they are written: the last part of a dotted one, all of an expression, that of a called function."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.python import syntax as s


def last(expr: s.Expr | None) -> str:
    """`steps` of `self.args.steps`; "" if it is no name."""
    match expr:
        case s.Name():
            return expr.id
        case s.Attr():
            return expr.name
        case _:
            return ""


def called(call: s.Call) -> str:
    """`relu` of `F.relu(x)` and of `x.relu()`."""
    return last(call.func)


def identifiers(expr: s.Expr) -> Iterator[str]:
    """All of them: `self`, `args` and `steps` of `self.args.steps`."""
    return (last(part) for part in s.walk_expr(expr) if isinstance(part, s.Name | s.Attr))
