"""The user's own code in messages: cut to a length that fits."""

from __future__ import annotations

from gradlint.python import syntax as s

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
