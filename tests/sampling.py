"""Long lists of files: some of them in the quick run, more in the whole one, and no more when the list grows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest


def spread(paths: Sequence[Path], quick: int, whole: int | None = None) -> list[Any]:
    """`whole` of the files (None: all), evenly chosen, as parameters of a test; all but `quick` of them are slow."""
    chosen = evenly(paths, len(paths) if whole is None else whole)
    fast = set(evenly(chosen, quick))
    return [path if path in fast else pytest.param(path, marks=pytest.mark.slow) for path in chosen]


def evenly(paths: Sequence[Path], count: int) -> list[Path]:
    """So many of them, from the whole length of the list."""
    count = min(count, len(paths))
    return [paths[number * len(paths) // count] for number in range(count)]
