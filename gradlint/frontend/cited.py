"""The user's own code in messages: cut to a length that fits, and the place where it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.frontend import syntax as s

if TYPE_CHECKING:
    from gradlint.frontend.numerics.operations import Operation

#: with it and a sentence of ours a message stays below 200 characters
LENGTH = 56


def cited(expr: s.Expr, length: int = LENGTH) -> str:
    """`torch.sum(…)` for a long call; else the beginning."""
    # an index of several parts is not kept by the small tree
    text = s.render(expr).replace("[:]", "[…]")
    if len(text) <= length:
        return text
    if isinstance(expr, s.Call):
        head = cited(expr.func)
        if len(head) + 3 <= length and not head.endswith("…"):
            return f"{head}(…)"
    return text[: length - 1].rstrip() + "…"


def origin(operation: Operation) -> s.Call | None:
    """The call that made the probability, if it does not stand in the operation's own text."""
    made = operation.fact.made
    return None if any(part is made for part in s.walk_expr(operation.operand)) else made
