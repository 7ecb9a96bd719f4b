"""The operations of a loss's graph that make NaN or Inf out of finite numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

#: nodes of the loss's graph that make NaN or Inf out of finite numbers, and the rule that tells more
_DELICATE = {
    "Log": "GL601",
    "Log2": "GL601",
    "Log10": "GL601",
    "Div": "GL602",
    "Reciprocal": "GL602",
    "Sqrt": "GL603",
    "Rsqrt": "GL603",
    "Norm": "GL603",
    "LinalgVectorNorm": "GL603",
    "Pow": "GL603",
    "Exp": "GL604",
}

#: nodes that are looked at, from the loss on
_NODES = 300


def delicate(loss: Tensor) -> Iterator[str]:
    """Operations near the loss that make NaN or Inf out of finite numbers: `LogBackward0 (GL601)`."""
    waiting, seen, told = [loss.grad_fn], set[Any](), set[str]()
    while waiting and len(seen) < _NODES:
        node = waiting.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        name = node.name()
        kind = name.rstrip("0123456789").removesuffix("Backward")
        if kind in _DELICATE and kind not in told:
            told.add(kind)
            yield f"{name} ({_DELICATE[kind]})"
        waiting += [following for following, _ in node.next_functions]
