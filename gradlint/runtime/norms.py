"""Norms of many tensors at once: whatever they are made of, one copy to the host for each device and dtype."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

#: numbers that are turned into doubles at a time
_PIECE = 1 << 18


def capturing() -> bool:
    """A CUDA graph is being recorded: a copy to the host would break it, and what is done becomes a part of it."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())  # type: ignore[no-untyped-call]


def numbers_of(tensor: Tensor) -> Tensor:
    """The stored real numbers of any tensor: the local shard, the values of a sparse one, real and imaginary parts."""
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce().values()
    elif tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def plain(tensor: Tensor) -> Tensor | None:
    """Its numbers in a type that holds their norm; None where there are none (meta tensors)."""
    if tensor.is_meta:
        return None
    at = numbers_of(tensor.detach())
    # a half-precision norm overflows where its numbers do not
    narrow = at.dtype in (torch.float16, torch.bfloat16) or not at.is_floating_point() or at.dtype.itemsize < 2
    return at.float() if narrow else at


def version(tensor: Tensor) -> int:
    """Counts what was written into a tensor; FSDP2 adds to the part of a DTensor that lives here, past its wrapper."""
    local = getattr(tensor, "_local_tensor", None)
    return (local if isinstance(local, Tensor) else tensor)._version


def total(tensors: Iterable[Tensor]) -> float:
    """The 2-norm of all of them together."""
    return math.sqrt(sum(x * x for x in each(tensors)))


def each(tensors: Iterable[Tensor]) -> list[float]:
    """The 2-norm of each, in no order."""
    groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
    for tensor in tensors:
        numbers = plain(tensor)
        if numbers is not None and numbers.numel():
            groups.setdefault((numbers.device, numbers.dtype), []).append(numbers)
    if groups and capturing():
        return [math.nan]
    found: list[float] = []
    for members in groups.values():
        found.extend(torch.stack(list(torch._foreach_norm(members, 2))).tolist())
    return found


def copy(tensor: Tensor) -> Tensor:
    """The numbers as they are now."""
    return tensor.detach().clone()


def sums(tensors: Sequence[Tensor]) -> tuple[float, float]:
    """Norm and sum of all numbers, in double precision: a checksum to compare ranks by."""
    squares = linear = 0.0
    for tensor in tensors:
        numbers = plain(tensor)
        if numbers is None or not numbers.numel() or capturing():
            continue
        for part in _parts(numbers):
            squares += float(torch.dot(part, part))
            linear += float(part.sum())
    return math.sqrt(squares), linear


def dot(left: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    """The scalar product of two lists of tensors of the same shapes, in double precision."""
    return math.fsum(float(torch.dot(a, b)) for a, b in _pairs(left, right))


def products(left: Sequence[Tensor], right: Sequence[Tensor]) -> tuple[float, float, float]:
    """The scalar products left·left, left·right and right·right of two such lists."""
    same = [(a, b) for a, b in zip(left, right, strict=True) if a is b or _equal(a, b)]
    apart = {id(a) for a, _ in same}
    changed = [(a, b) for a, b in zip(left, right, strict=True) if id(a) not in apart]
    # What did not change is the same part of all three.
    first = both = second = math.fsum(x * x for x in each(a for a, _ in same))
    for a, b in _pairs([a for a, _ in changed], [b for _, b in changed]):
        first += float(torch.dot(a, a))
        both += float(torch.dot(a, b))
        second += float(torch.dot(b, b))
    return first, both, second


def _equal(left: Tensor, right: Tensor) -> bool:
    plain_ones = left.layout is right.layout is torch.strided and left.dtype == right.dtype
    return plain_ones and left.device.type == "cpu" and left.shape == right.shape and torch.equal(left, right)


def _pairs(left: Sequence[Tensor], right: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    for a, b in zip(left, right, strict=True):
        one, other = plain(a), plain(b)
        if one is not None and other is not None and one.numel() and one.shape == other.shape:
            yield from zip(_parts(one), _parts(other), strict=True)


def _parts(numbers: Tensor) -> Iterator[Tensor]:
    """Doubles, in pieces that a cache can hold: all at once they would need twice the memory of the tensor itself."""
    flat = numbers.reshape(-1)
    return map(_wide, (flat,) if len(flat) <= _PIECE else torch.split(flat, _PIECE))


def _wide(numbers: Tensor) -> Tensor:
    return numbers.cpu().double() if numbers.device.type == "mps" else numbers.double()
