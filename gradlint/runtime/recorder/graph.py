"""Reads off the top of an autograd graph what a loss was multiplied by."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

#: where `scaler.scale` leaves its mark on the node of what it returned
SCALED = "gradlint_scaled"

#: nodes that are looked at, at most: a loss summed up over a long loop is not followed for ever
LIMIT = 400

#: how torch numbers `reduction="sum"`
_SUM = 2

#: nodes that hand the loss on as it is
_SAME = frozenset({"ToCopyBackward0", "CloneBackward0", "AliasBackward0", "ViewBackward0", "UnsafeViewBackward0",
                   "ReshapeAliasBackward0", "SqueezeBackward0", "SqueezeBackward1", "UnsqueezeBackward0"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Top:
    """What stands above the loss proper."""

    #: None where it cannot be told, or there are several
    factor: float | None
    mixed: bool
    root: str
    scaler: str = ""
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class _Branch:
    root: str
    factor: float = 1.0
    scaler: str = ""
    scale: float = 1.0


def mark_scaled(outputs: Any, scaler: str, scale: float) -> None:
    """Mark the nodes of what a scaler returned, so that its factor can be told from the user's."""
    if isinstance(outputs, Tensor):
        node: Any = outputs.grad_fn
        if node is not None:
            node.metadata[SCALED] = (scaler, scale)
    elif isinstance(outputs, Iterable):
        for output in outputs:
            mark_scaled(output, scaler, scale)


def read(losses: list[Tensor], weights: list[Tensor | None]) -> Top:
    """The factors of all losses of a backward, with the gradients that were handed in for them."""
    branches: list[_Branch] = []
    for loss, weight in zip(losses, weights, strict=True):
        if loss.grad_fn is None:
            branches.append(_Branch("AccumulateGrad"))
            continue
        given = 1.0 if weight is None else _number(weight)
        if given is None:
            return Top(None, False, loss.grad_fn.name())
        found = _branches(loss.grad_fn, given)
        if found is None:
            return Top(None, False, loss.grad_fn.name())
        branches.extend(found)
    return _together(branches)


def leaves(losses: list[Tensor]) -> set[int] | None:
    """The tensors (their ids) that a backward of these gives gradients to; None if not all of them can be seen."""
    found = _leaves(losses)
    return None if found is None else set(found)


def leaf_tensors(losses: list[Tensor]) -> list[Tensor]:
    """The same, themselves; none if not all of them can be seen."""
    return list((_leaves(losses) or {}).values())


def _leaves(losses: list[Tensor]) -> dict[int, Tensor] | None:
    found: dict[int, Tensor] = {}
    waiting: list[Any] = [loss.grad_fn for loss in losses if loss.grad_fn is not None]
    seen: set[Any] = set(waiting)
    while waiting:
        node = waiting.pop()
        if node.name() == "CheckpointFunctionBackward":  # it runs a backward of its own
            return None
        if (leaf := getattr(node, "variable", None)) is not None:
            found[id(leaf)] = leaf
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                waiting.append(below)
    return found


def _together(branches: list[_Branch]) -> Top:
    if not branches:
        return Top(None, False, "")
    first = branches[0]
    root = first.root if all(b.root == first.root for b in branches) else "AddBackward0"
    if all(b.root.startswith("Sum") for b in branches):
        root = "SumBackward0"
    same_scale = all(b.scaler == first.scaler and b.scale == first.scale for b in branches)
    if not same_scale:
        return Top(None, True, root, *max(((b.scaler, b.scale) for b in branches), key=lambda s: s[1]))
    same = all(math.isclose(abs(b.factor), abs(first.factor), rel_tol=1e-6) for b in branches)
    return Top(first.factor if same else None, not same, root, first.scaler, first.scale)


def _branches(top: Any, factor: float) -> list[_Branch] | None:
    """Down from `top` to the first nodes that are no sums and no constant factors; None if there are too many."""
    found: list[_Branch] = []
    waiting: deque[tuple[Any, _Branch]] = deque([(top, _Branch("", factor))])
    for _ in range(LIMIT):
        if not waiting:
            return found
        node, so_far = waiting.popleft()
        below = _below(node, so_far)
        if below is None:
            found.append(_Branch(_root(node), so_far.factor, so_far.scaler, so_far.scale))
        else:
            waiting.extend(below)
    return None


def _root(node: Any) -> str:
    """The name of the loss proper; loss functions with `reduction="sum"` have that of those which make means."""
    name: str = node.name()
    # a factor that torch's own code multiplies by: the two halves of a cross entropy with smoothed labels
    if name == "MulBackward1" and node.next_functions and node.next_functions[0][0] is not None:
        return _root(node.next_functions[0][0])
    return f"Sum({name})" if getattr(node, "_saved_reduction", None) == _SUM else name


def _below(node: Any, so_far: _Branch) -> list[tuple[Any, _Branch]] | None:
    """The nodes under this one, each with what it is multiplied by; None if the loss proper begins here."""
    inputs = [function for function, _ in node.next_functions]
    times = _times(node, inputs)
    if times is None:
        return None
    mark = node.metadata.get(SCALED)
    found: list[tuple[Any, _Branch]] = []
    for function, factor in zip(inputs, times, strict=True):
        if function is None:
            continue
        if mark is not None:
            scaler, scale = mark
            found.append((function, _Branch("", so_far.factor, scaler, so_far.scale * scale)))
        else:
            found.append((function, _Branch("", so_far.factor * factor, so_far.scaler, so_far.scale)))
    return found


def _times(node: Any, inputs: list[Any]) -> list[float] | None:
    """By what a node multiplies each of its inputs, if it does nothing else."""
    name = node.name()
    if name in _SAME:
        return [1.0] * len(inputs)
    if name == "NegBackward0":
        return [-1.0]
    if name in ("AddBackward0", "SubBackward0"):
        alpha = float(getattr(node, "_saved_alpha", 1.0))
        return [1.0, alpha if name == "AddBackward0" else -alpha][: len(inputs)]
    if name in ("RsubBackward0", "RsubBackward1"):
        return [-1.0, 1.0][: len(inputs)] if _number_saved(node, "alpha", 1.0) == 1.0 else None
    if name == "DivBackward0" and _only(inputs, 0):
        by = _saved(node, "other")
        return None if not by else [1.0 / by, 1.0]
    if name == "MulBackward0" and (_only(inputs, 0) or _only(inputs, 1)):
        by = _saved(node, "other" if _only(inputs, 0) else "self")
        return None if by is None else [by, by]
    return None


def _only(inputs: list[Any], wanted: int) -> bool:
    """The other input is a constant."""
    return len(inputs) == 2 and inputs[wanted] is not None and inputs[1 - wanted] is None


def _number_saved(node: Any, name: str, default: float) -> float:
    value = getattr(node, f"_saved_{name}", default)
    return float(value) if isinstance(value, int | float) else default


def _saved(node: Any, name: str) -> float | None:
    """A saved constant. One that went through hooks stays where it is: unpacking may recompute a whole forward."""
    try:
        raw = getattr(node, f"_raw_saved_{name}", None)
        if getattr(raw, "unpack_hook", None) is not None:
            return None
        value = getattr(node, f"_saved_{name}", None)
    except RuntimeError:  # the graph was used before, and its buffers are freed
        return None
    return _number(value) if isinstance(value, Tensor) else None


def _number(value: Tensor) -> float | None:
    if value.numel() != 1 or value.is_complex() or value.is_meta:
        return None
    return float(value.detach())


def loss_value(losses: list[Tensor]) -> float | None:
    """The loss, if it is one number; of several their sum."""
    if not losses or any(loss.numel() != 1 or loss.is_complex() or loss.is_meta for loss in losses):
        return None
    if any(loss.is_cuda for loss in losses) and torch.cuda.is_current_stream_capturing():
        return None
    return math.fsum(float(loss.detach()) for loss in losses)
