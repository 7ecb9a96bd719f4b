"""What repeats is shown once, with how often: eight micro-batches are `(forward, backward) × 8`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

#: a passage that comes twice is read faster than a bracket
_FEWEST = 3
#: one event that comes twice needs no bracket
_FEWEST_ALONE = 2
#: the longest passage whose repetition is looked for
_LONGEST = 24
#: micro-batches within critic steps within an iteration
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Cell(Generic[T]):
    """One thing to show, and all the things that it stands for."""

    items: tuple[T, ...]

    @property
    def first(self) -> T:
        return self.items[0]


@dataclass(frozen=True, slots=True)
class Fold(Generic[T]):
    """A passage that came `count` times in a row."""

    passage: tuple[Cell[T] | Fold[T], ...]
    count: int


def folded(items: Sequence[T], key: Callable[[T], Hashable]) -> list[Cell[T] | Fold[T]]:
    """The items, with passages that are the same by `key` folded; the shortest passages first."""
    current: list[Cell[T] | Fold[T]] = [Cell((item,)) for item in items]
    for _ in range(_ROUNDS):
        before = len(current)
        for length in range(1, min(_LONGEST, max(1, len(current) // _FEWEST)) + 1):
            current = _folded_by(current, length, key)
        if len(current) == before:
            break
    return current


def cells(parts: Sequence[Cell[T] | Fold[T]]) -> list[Cell[T]]:
    """From the left to the right, each once."""
    found: list[Cell[T]] = []
    for part in parts:
        found += cells(part.passage) if isinstance(part, Fold) else [part]
    return found


def _folded_by(parts: list[Cell[T] | Fold[T]], length: int, key: Callable[[T], Hashable]) -> list[Cell[T] | Fold[T]]:
    keys = [_key(part, key) for part in parts]
    found: list[Cell[T] | Fold[T]] = []
    at = 0
    while at < len(parts):
        count = 1
        while keys[at + count * length : at + (count + 1) * length] == keys[at : at + length]:
            count += 1
        if count < (_FEWEST_ALONE if length == 1 and isinstance(parts[at], Cell) else _FEWEST):
            found.append(parts[at])
            at += 1
        else:
            columns = zip(*(parts[at + n * length : at + (n + 1) * length] for n in range(count)), strict=True)
            found.append(Fold(tuple(_merged(column) for column in columns), count))
            at += count * length
    return found


def _merged(same: Sequence[Cell[T] | Fold[T]]) -> Cell[T] | Fold[T]:
    """One that stands for all of them; by their keys they are built alike."""
    first = same[0]
    if isinstance(first, Cell):
        return Cell(tuple(item for part in same if isinstance(part, Cell) for item in part.items))
    columns = zip(*(part.passage for part in same if isinstance(part, Fold)), strict=True)
    return Fold(tuple(_merged(column) for column in columns), first.count)


def _key(part: Cell[T] | Fold[T], key: Callable[[T], Hashable]) -> Hashable:
    if isinstance(part, Fold):
        return ("fold", part.count, tuple(_key(p, key) for p in part.passage))
    return key(part.first)
