"""Injected bugs are mended, and what was only moved is as it was."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.mutate.__main__ import ALL_MUTATIONS, MORE_MUTATIONS, few
from benchmarks.recall import LOOPS
from benchmarks.roundtrip import GONE_GOAL, RESTORED_GOAL, Table, mended
from gradlint.config import Settings
from gradlint.engine import lint

PATHS = sorted(LOOPS.glob("*.py"))


@pytest.mark.slow
def test_injected_bugs_are_mended() -> None:
    """Two of each code; `python -m benchmarks.roundtrip` takes two from every loop."""
    made = list(few(PATHS, ALL_MUTATIONS, 2))
    table = Table(outcome for mutant in made if (outcome := mended(mutant, Settings())) is not None)
    told = "\n".join([*table.lines(), *(outcome.summary() for outcome in table.failures)])
    assert table.reported.total() > 0.9 * len(made), told
    assert table.share_gone >= GONE_GOAL, told
    assert table.share_restored >= RESTORED_GOAL, told


@pytest.mark.slow
@pytest.mark.parametrize("code", sorted(MORE_MUTATIONS))
def test_an_injected_bug_is_the_only_one(code: str) -> None:
    """The recall benchmark judges the other mutations; these are there for their fixes."""
    made, shown = 0, 0
    for mutant in few(PATHS, {code: MORE_MUTATIONS[code]}, 6):
        result = lint(mutant.text.encode(), str(mutant.source), Settings(offers=False))
        found = Counter(f.code for f in result.findings)
        assert set(found) <= {code}, f"{mutant.source.name}, line {mutant.line} of the mutant"
        made, shown = made + 1, shown + bool(found)
    assert made > 2
    assert shown / made > 0.8
