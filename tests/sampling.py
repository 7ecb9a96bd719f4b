"""Long lists of files or rules: some of them in the quick run, more in the whole one, and no more when they grow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
_every = False
_slow = True


def is_quick(config: pytest.Config) -> bool:
    """`pytest -m "not slow"`: what is slow is left out."""
    return bool(config.getoption("markexpr") == "not slow")


def leave_out_slow() -> None:
    """In the quick run; what would be deselected at once is not even made a test."""
    global _slow
    _slow = False


def take_every_file() -> None:
    """`pytest --every-file`; before the modules of tests are imported."""
    global _every
    _every = True


def spread(things: Sequence[T], quick: int, whole: int | None = None) -> list[Any]:
    """`whole` of them (None: all), evenly chosen, as parameters of a test; all but `quick` of them are slow."""
    chosen = evenly(things, len(things) if whole is None or _every else whole)
    if not _slow:
        return list(evenly(chosen, quick))
    fast = set(evenly(chosen, quick))
    return [one if one in fast else pytest.param(one, marks=pytest.mark.slow) for one in chosen]


def evenly(things: Sequence[T], count: int) -> list[T]:
    """So many of them, from the whole length of the list."""
    count = min(count, len(things))
    return [things[number * len(things) // count] for number in range(count)]
