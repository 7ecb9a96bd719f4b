"""Faults of the system, for the module that writes users' files and for nothing else in the process; and time."""

from __future__ import annotations

import os
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def inject(monkeypatch: pytest.MonkeyPatch, **functions: Callable[..., Any]) -> None:
    """Give `gradlint.runner.write` another `os`: pytest, threads and destructors keep the real one."""
    monkeypatch.setattr("gradlint.runner.write.os", types.SimpleNamespace(**{**vars(os), **functions}))


def age(*paths: Path, seconds: int = 60) -> None:
    """Files as they are in life: written some time before they are linted."""
    then = time.time() - seconds
    for path in paths:
        os.utime(path, (then, then))
