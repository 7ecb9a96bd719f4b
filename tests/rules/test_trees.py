"""Fixtures of several files: what is found in each, when all of them are followed into each other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.rules.expectations import expectations, rule_of
from tests.rules.recorded import BAD_TREES, GOOD_TREES, expected, results_of, sources, tree_shown


def _name(tree: Path) -> str:
    return f"{tree.parent.name}/{tree.name}"


@pytest.mark.parametrize("tree", [*BAD_TREES, *GOOD_TREES], ids=_name)
def test_every_file_of_a_tree_says_what_it_is_for(tree: Path) -> None:
    firsts = {path: path.read_text(encoding="utf-8").partition("\n")[0] for path in sources(tree)}
    assert len(firsts) > 1
    assert [path.name for path, line in firsts.items() if not (line.startswith("# ") and len(line) > 12)] == []


@pytest.mark.parametrize("tree", BAD_TREES, ids=_name)
def test_bad(tree: Path) -> None:
    results = results_of(tree)
    wanted = [(path, e) for path in sources(tree) for e in expectations(path.read_text(encoding="utf-8"))]
    found = Counter(
        (path.relative_to(tree).as_posix(), finding.span.start.row, finding.code)
        for path, result in results.items()
        for finding in result.findings
    )
    assert any(e.code == rule_of(tree).meta.code for _, e in wanted), "the folder's rule is not expected anywhere"
    assert found == Counter((path.relative_to(tree).as_posix(), e.line, e.code) for path, e in wanted)
    assert tree_shown(tree, results) == expected(tree), (
        "if this is as it should be: pytest --update-expected, and read the diff"
    )


@pytest.mark.parametrize("tree", GOOD_TREES, ids=_name)
def test_good(tree: Path) -> None:
    assert [e for path in sources(tree) for e in expectations(path.read_text(encoding="utf-8"))] == []
    assert tree_shown(tree, results_of(tree)) == ""
