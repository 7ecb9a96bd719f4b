"""Judges what was done to a list of gradients by their numbers before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradlint.runtime.recorder import norms

#: relative errors that are rounding
CLOSE = 1e-4


@dataclass(frozen=True, slots=True)
class Pair:
    """One gradient before and after, and the parameter it belongs to; None where there was none."""

    parameter: Tensor
    before: Tensor | None
    after: Tensor | None


def same(left: Tensor | None, right: Tensor | None) -> bool:
    """Equal number for number; NaN is equal to NaN."""
    if left is None or right is None:
        return left is right
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    one, other = norms.plain(left), norms.plain(right)
    if one is None or other is None or one.shape != other.shape:
        return one is other
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def empty(tensor: Tensor | None) -> bool:
    """No gradient, or nothing but zeros."""
    if tensor is None:
        return True
    numbers = norms.plain(tensor)
    return numbers is not None and not bool(numbers.any())


def judge(pairs: Sequence[Pair], methods: frozenset[str]) -> tuple[str, float | None]:
    """How they were edited, and by which factor; `methods` are the names called on them, for what numbers hide."""
    found = [(pair.parameter, a, b) for pair in pairs if (a := _numbers(pair.before)) is not None
             and (b := _numbers(pair.after)) is not None and a.shape == b.shape]  # fmt: skip
    if not found or len(found) < len(pairs):
        return "other", None
    parameters = [p for p, _, _ in found]
    before, after = [a for _, a, _ in found], [b for _, _, b in found]
    factor = _factor(before, after)
    clamps = any(name.startswith(("clamp", "clip")) for name in methods)
    if factor is not None and not (clamps and factor == 1.0):
        return ("divide" if abs(factor) < 1 else "scale"), factor
    if clamps or _clamped(before, after):
        return "clamp", None
    return ("noise" if _noise(parameters, before, after) else "other"), None


def _numbers(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else norms.plain(tensor)


def _factor(before: Sequence[Tensor], after: Sequence[Tensor]) -> float | None:
    """The one number that all of them were multiplied by."""
    square, both, _ = norms.products(before, after)
    if not square or square != square or square == float("inf"):
        return None
    factor = both / square
    rest = norms.total([b - a * factor for a, b in zip(before, after, strict=True)])
    if rest > CLOSE * norms.total(after):
        return None
    return 1.0 if abs(factor - 1.0) < 1e-9 else factor


def _clamped(before: Sequence[Tensor], after: Sequence[Tensor]) -> bool:
    low = min(float(b.min()) for b in after if b.numel())
    high = max(float(b.max()) for b in after if b.numel())
    if not any(bool((a == b).any()) for a, b in zip(before, after, strict=True)):
        return False
    return all(torch.equal(a.clamp(low, high), b) for a, b in zip(before, after, strict=True))


def _noise(parameters: Sequence[Tensor], before: Sequence[Tensor], after: Sequence[Tensor]) -> bool:
    """Every number moved, up or down as it came, and not along the gradient or the weights (decay by hand)."""
    change = [b - a for a, b in zip(before, after, strict=True)]
    count = sum(c.numel() for c in change)
    if count < 8 or sum(int((c == 0).sum()) for c in change) > count // 20:
        return False
    if not 0.2 < sum(int((c > 0).sum()) for c in change) / count < 0.8:
        return False
    weights = [w for p in parameters if (w := norms.plain(p)) is not None]
    size = norms.total(change)
    along = [norms.dot(change, other) / (size * (norms.total(other) or 1.0)) for other in (before, weights)
             if len(other) == len(change)]  # fmt: skip
    return all(abs(cosine) < 0.5 for cosine in along)
