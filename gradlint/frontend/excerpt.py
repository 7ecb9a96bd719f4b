"""The text of an expression, cut to a length that fits a message."""

from __future__ import annotations

from gradlint.frontend import syntax as s

_LENGTH = 48


def excerpt(expr: s.Expr) -> str:
    """`torch.sum(embeddings ** 2, -1, keepdim=True)` -> `torch.sum(…)`, if it is too long."""
    text = s.render(expr)
    if len(text) <= _LENGTH:
        return text
    head = text.partition("(")[0]
    return f"{head}(…)" if head and len(head) <= _LENGTH else text[: _LENGTH - 1] + "…"
