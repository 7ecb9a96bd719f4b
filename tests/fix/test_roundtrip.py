"""Injected bugs are mended, and what was only moved is as it was."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from benchmarks.mutate.__main__ import MORE_MUTATIONS, mutants, sources
from benchmarks.mutate.scene import Scene
from benchmarks.recall import LOOPS
from benchmarks.roundtrip import GONE_GOAL, RESTORED_GOAL, Table, outcomes
from gradlint.config import Settings
from gradlint.engine import lint


@pytest.mark.slow
def test_injected_bugs_are_mended() -> None:
    """Every fourth loop; `python -m benchmarks.roundtrip` takes them all."""
    table = Table(outcomes(list(sources([LOOPS]))[::4]))
    told = "\n".join([*table.lines(), *(outcome.summary() for outcome in table.failures)])
    assert table.reported.total() > 120, told
    assert table.share_gone >= GONE_GOAL, told
    assert table.share_restored >= RESTORED_GOAL, told


@pytest.mark.slow
@pytest.mark.parametrize("code", sorted(MORE_MUTATIONS))
def test_an_injected_bug_is_the_only_one(code: str) -> None:
    """The recall benchmark judges the other mutations; these are there for their fixes."""
    made, shown = 0, 0
    for path in sources([LOOPS]):
        for text, line in itertools.islice(mutants(Scene(path.read_text(encoding="utf-8")), MORE_MUTATIONS[code]), 2):
            found = Counter(f.code for f in lint(text.encode(), str(path), Settings()).findings)
            assert set(found) <= {code}, f"{path.name}, line {line} of the mutant"
            made, shown = made + 1, shown + bool(found)
    assert made > 4
    assert shown / made > 0.9
