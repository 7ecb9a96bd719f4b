"""Every fixture gives exactly the findings that its comments expect, in the words of its folder's `expected.txt`."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from gradlint.model import FileResult
from tests.repair.pairs import fixed_of, is_mended
from tests.rules.expectations import FIXTURES, expectations, lint_with, rule_of
from tests.rules.recorded import expected, result_of, shown
from tests.sampling import spread

BAD = sorted(FIXTURES.glob("*/bad*.py"))
GOOD = sorted(FIXTURES.glob("*/good*.py"))


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _lint(path: Path) -> FileResult:
    return lint_with(rule_of(path), path.read_text(encoding="utf-8"), str(path))


def _reason(path: Path) -> str | None:
    """What the first lines say of the file: a comment or a docstring, above or below its first import."""
    for line in path.read_text(encoding="utf-8-sig").splitlines()[:4]:
        text = line.strip()
        if text.startswith(("# ", '"""')) and not text.startswith(
            ("# expect", "# gradlint", "# noqa", "# type:", "# -*-")
        ):
            return text
    return None


def test_every_fixture_begins_with_its_reason() -> None:
    """Of a bad one: what is wrong; of a good one: why it is right. What a fix makes of a file keeps its words."""
    silent = [_name(path) for path in sorted(FIXTURES.glob("*/*.py")) if len(_reason(path) or "") < 12]
    assert silent == []


def test_names_say_what_is_shown() -> None:
    """Numbers of a list that nobody has are no names."""
    numbered = [_name(path) for path in sorted(FIXTURES.glob("*/*.py")) if re.search(r"_(item)?\d+(_|$)", path.stem)]
    assert numbered == []


@pytest.mark.parametrize("path", spread(BAD, 55), ids=_name)
def test_bad(path: Path) -> None:
    wanted = expectations(path.read_text(encoding="utf-8"))
    result = result_of(path)
    findings = result.findings
    assert any(e.code == rule_of(path).meta.code for e in wanted), "the folder's rule is not expected anywhere"
    assert Counter((f.span.start.row, f.code) for f in findings) == Counter((e.line, e.code) for e in wanted)
    columns = {(f.span.start.row, f.code, f.span.start.column) for f in findings}
    for e in wanted:
        assert e.column is None or (e.line, e.code, e.column) in columns
    for finding in findings:
        assert not set("{}") & set(finding.message), f"a blank was not filled in: {finding.message}"
        assert len(finding.message) <= 200, finding.message
    assert shown(path, result) == expected(path), (
        "if this is as it should be: pytest --update-expected, and read the diff"
    )
    if path.stem.startswith("bad_nofix"):
        assert [f for f in findings if f.code == rule_of(path).meta.code and f.fix is not None] == []
    elif fixed_of(path).exists():
        assert is_mended(path, result)


@pytest.mark.parametrize("path", spread(GOOD, 55), ids=_name)
def test_good(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert expectations(text) == []
    assert [(f.span.start.row, f.code, f.message) for f in _lint(path).findings] == []
