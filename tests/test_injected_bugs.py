"""Correct loops are silent; loops with one injected bug are not."""

from __future__ import annotations

import collections
from pathlib import Path

import pytest

from benchmarks.mutate.__main__ import MUTATIONS, few
from benchmarks.recall import LOOPS, judged
from gradlint.config import Settings
from gradlint.engine import lint
from tests.sampling import spread

CORRECT = sorted(LOOPS.glob("*.py"))
#: of all that the mutator injects into our own loops
GOAL = 0.95


@pytest.mark.parametrize("path", spread(CORRECT, 12), ids=lambda path: path.stem)
def test_a_correct_loop_is_silent(path: Path) -> None:
    result = lint(path.read_bytes(), str(path), Settings())
    assert [(f.span.start.row, f.code, f.message) for f in result.findings] == []
    assert result.crashes == ()


@pytest.mark.slow
def test_injected_bugs_are_found_at_their_line() -> None:
    """Six of each code; `python -m benchmarks.recall` takes two from every loop."""
    made, near = collections.Counter[str](), collections.Counter[str]()
    for mutant in few(CORRECT, MUTATIONS, 6):
        outcome = judged(mutant)
        made[outcome.code] += 1
        near[outcome.code] += outcome.near
    assert set(made) == set(MUTATIONS)
    assert made.total() > 3 * len(MUTATIONS)
    assert near.total() / made.total() >= GOAL
    missed = {code: (near[code], made[code]) for code in made if near[code] / made[code] < 0.8}
    assert missed == {}, "codes of which many are missed"
