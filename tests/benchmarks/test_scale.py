"""`benchmarks.scale`: every shape, whatever its size, has the finding that linting it must not lose."""

from __future__ import annotations

import pytest

from benchmarks.scale import SHAPES
from gradlint.config import Settings
from gradlint.engine import lint
from tests.sampling import spread


@pytest.mark.parametrize("name", spread(list(SHAPES), 3))
def test_every_shape_has_its_findings(name: str) -> None:
    make, _ = SHAPES[name]
    for size in (3, 6):
        result = lint(make(size).encode(), "train.py", Settings())
        assert (result.crashes, result.unreadable) == ((), None)
        code = "GL401" if name == "updates" else "GL101"
        meant = [finding for finding in result.findings if finding.code == code]
        assert len(meant) == (size if name in ("loops", "updates") else 1)
        assert all(finding.fix is not None for finding in meant)
