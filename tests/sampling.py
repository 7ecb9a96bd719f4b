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


def takes_every_file() -> bool:
    return _every


def spread(things: Sequence[T], quick: int, whole: int | None = None) -> list[Any]:
    """`whole` of them (None: all), evenly chosen, as parameters of a test; all but `quick` of them are slow."""
    chosen = list(things) if whole is None else sample(things, whole)
    if not _slow:
        return list(evenly(chosen, quick))
    fast = set(evenly(chosen, quick))
    return [one if one in fast else pytest.param(one, marks=pytest.mark.slow) for one in chosen]


def sample(things: Sequence[T], count: int) -> list[T]:
    """So many of them, evenly chosen; all of them before a release (`pytest --every-file`)."""
    return list(things) if _every else evenly(things, count)


def evenly(things: Sequence[T], count: int) -> list[T]:
    """So many of them, from the whole length of the list."""
    count = min(count, len(things))
    return [things[number * len(things) // count] for number in range(count)]
