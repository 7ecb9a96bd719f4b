"""Long lists of files: every few of them in the quick run, all of them in the whole one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest


def spread(paths: Sequence[Path], every: int, of: int = 1) -> list[Any]:
    """The files as parameters of a test, all but each `every`th marked as slow; `of`: only each so-manieth at all."""
    chosen = list(enumerate(paths))[::of]
    return [path if n % every == 0 else pytest.param(path, marks=pytest.mark.slow) for n, path in chosen]
