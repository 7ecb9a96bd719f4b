"""What is released, built once for all tests that install it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.sharing import once

ROOT = Path(__file__).resolve().parent.parent


def distributions(factory: pytest.TempPathFactory) -> Path:
    """The folder of both: the wheel is built from the sdist, as `python -m build` does, so one build covers them."""
    return once(factory, "dist", _built)


def wheel(factory: pytest.TempPathFactory) -> Path:
    (found,) = distributions(factory).glob("*.whl")
    return found


def _built(folder: Path) -> Path:
    # the hooks of pre-commit are installed with an isolated build
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=folder)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return folder
