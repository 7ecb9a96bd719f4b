"""The whole project is typed, tidy, and its imports point down."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent


def _run(*command: str) -> None:
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def _tool(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    assert found, f"{name} is not installed: pip install -e '.[dev]'"
    return found


def test_ruff() -> None:
    _run(_tool("ruff"), "check", "--no-cache", ".")


def test_format() -> None:
    _run(_tool("ruff"), "format", "--no-cache", "--check", ".")


@pytest.mark.slow
def test_types() -> None:
    """All in one go: most of the time goes into torch, which all of them need."""
    measures = map(str, sorted((ROOT / "fixtures").glob("*/measure.py")))
    _run(sys.executable, "-m", "mypy", "gradlint", "rules", "tests", "docs/facts.py", *measures)


@pytest.mark.slow
def test_imports_point_down() -> None:
    _run(_tool("lint-imports"), "--no-cache")


def test_every_package_is_shipped() -> None:
    listed = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for folder, _, names in os.walk(ROOT / "gradlint"):
        if any(name.endswith(".py") for name in names):
            package = ".".join(Path(folder).relative_to(ROOT).parts)
            assert f'"{package}",' in listed, f"{package} is missing in [tool.setuptools] packages"
            assert "__init__.py" in names, f"{package} has no __init__.py"
