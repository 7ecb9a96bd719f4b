"""Faults of the system, for the module that writes users' files and for nothing else in the process."""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from typing import Any

import pytest


def inject(monkeypatch: pytest.MonkeyPatch, **functions: Callable[..., Any]) -> None:
    """Give `gradlint.runner.write` another `os`: pytest, threads and destructors keep the real one."""
    monkeypatch.setattr("gradlint.runner.write.os", types.SimpleNamespace(**{**vars(os), **functions}))
