"""What the fixer makes of a pair of fixtures, and what is left then; `tests/rules` has the fixes of all of them."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

import pytest

from gradlint.engine import lint
from gradlint.model import FixSafety
from gradlint.registry import all_rules
from gradlint.rule import HOOKS, Rule
from tests.repair.pairs import bad_of, fix_with, settings, without_expectations
from tests.rules.expectations import FIXTURES, rule_of
from tests.sampling import spread

FIXED = sorted(FIXTURES.glob("*/fixed*.py"))
#: what every fixer is shown to handle; each is the beginning of a fixture's name
SHAPES = ("plain", "accumulation", "amp", "amp_accumulation", "class", "helper", "with", "comments", "several")
#: a rule that looks at the text alone sees the same in every loop
OF_LOOPS = {"accumulation", "amp", "amp_accumulation"}
OF_PATHS = set(HOOKS) - {"on_call", "on_operation", "on_setting", "on_stack", "on_file"}


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _code(rule: type[Rule]) -> str:
    return rule.meta.code


@pytest.mark.parametrize("path", spread(FIXED, 40, 80), ids=_name)
def test_pair(path: Path) -> None:
    """Some of them: `tests/rules` asks of every pair whether the bad file becomes the fixed one."""
    rule = rule_of(path)
    bad, good = without_expectations(bad_of(path)), path.read_bytes()
    outcome = fix_with(rule, bad, path)
    assert outcome.source.decode() == good.decode(), outcome.result.notes
    assert {f.code for f in outcome.applied} == {rule.meta.code}
    ast.parse(good)
    after = Counter(f.code for f in outcome.result.findings)
    assert rule.meta.code not in after, "the finding is still there"
    if after:
        before = Counter(f.code for f in lint(bad, str(path), settings(rule, fixable=False)).findings)
        assert after - before == Counter(), "the fix has raised another rule"


@pytest.mark.slow
def test_no_comment_is_lost() -> None:
    for path in FIXED:
        bad = _comments(without_expectations(bad_of(path)))
        assert bad - _comments(path.read_bytes()) == Counter(_may_be_dropped(bad)), _name(path)


@pytest.mark.parametrize("path", spread(FIXED, 20, 60), ids=_name)
def test_fixing_again_changes_nothing(path: Path) -> None:
    """Fewer of them: where the finding is gone there is nothing that could be fixed."""
    again = fix_with(rule_of(path), path.read_bytes(), path)
    assert (again.source, again.applied) == (path.read_bytes(), ())


def _comments(source: bytes) -> Counter[str]:
    tokens = tokenize.tokenize(io.BytesIO(source).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)


def _may_be_dropped(comments: Counter[str]) -> list[str]:
    """Comments that go with the statement they explain, marked so: `# goes: …`."""
    return [c for c in comments.elements() if c.startswith("# goes: ") or "gradlint: ignore" in c]


@pytest.mark.parametrize("rule", [r for r in all_rules() if r.meta.fix is not FixSafety.NONE], ids=_code)
def test_every_fixer_is_shown_in_every_shape(rule: type[Rule]) -> None:
    folder = FIXTURES / rule.rule_name().replace("-", "_")
    names = {path.stem.removeprefix("fixed_") for path in folder.glob("fixed_*.py")}
    shown = {shape for shape in SHAPES for name in names if name == shape or name.startswith(f"{shape}_")}
    assert set(SHAPES) - shown - (set() if rule.hooks & OF_PATHS else OF_LOOPS) == set()
