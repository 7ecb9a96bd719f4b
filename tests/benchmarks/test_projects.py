"""`benchmarks.projects`: the trees that it makes are followed from file to file, and end."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.projects import SHAPES
from gradlint.config import Settings
from gradlint.engine import lint


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_link_is_followed_into_the_next(shape: str, tmp_path: Path) -> None:
    links = SHAPES[shape](tmp_path, 1500)
    assert len(list(tmp_path.rglob("*.py"))) == 1500
    assert len(list(tmp_path.glob("link_*.py"))) == links
    first = tmp_path / "link_0.py"
    result = lint(first.read_bytes(), str(first), Settings(project=True, root=str(tmp_path)))
    assert (result.crashes, result.unreadable) == ((), None)
    assert str(tmp_path / "link_1.py") in dict(result.probes)
