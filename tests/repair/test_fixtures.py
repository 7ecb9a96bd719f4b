"""Every pair of fixtures: what the fixer makes of `bad_x.py` is `fixed_x.py`, to the byte."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

import pytest

from gradlint.config import Layer, Settings
from gradlint.engine import fix, lint
from gradlint.model import Fixed, FixSafety
from gradlint.registry import all_rules
from gradlint.rule import HOOKS, Rule
from tests.rules.expectations import FIXTURES, rule_of
from tests.sampling import spread

FIXED = sorted(FIXTURES.glob("*/fixed*.py"))
#: what every fixer is shown to handle; each is the beginning of a fixture's name
SHAPES = ("plain", "accumulation", "amp", "amp_accumulation", "class", "helper", "with", "comments", "several")
#: a rule that looks at the text alone sees the same in every loop
OF_LOOPS = {"accumulation", "amp", "amp_accumulation"}
OF_PATHS = set(HOOKS) - {"on_call", "on_operation", "on_setting", "on_stack", "on_file"}
_EXPECT = re.compile(r"[ \t]*# expect: .*$", re.MULTILINE)


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _code(rule: type[Rule]) -> str:
    return rule.meta.code


def _bad(fixed: Path) -> bytes:
    """The other half of a pair, without what it says to the test of the findings."""
    source = fixed.with_name(fixed.name.replace("fixed", "bad", 1)).read_bytes().decode()
    return _EXPECT.sub("", source).encode()


def _settings(rule: type[Rule], *, fixable: bool = True) -> Settings:
    """As most people lint, with this rule turned on too, and only its fixes applied, or none."""
    fixes = Layer(fixable=(rule.meta.code,)) if fixable else Layer(unfixable=("ALL",))
    return Settings(layers=(fixes._replace(extend_select=(rule.meta.code,)),))


def _fixed(source: bytes, rule: type[Rule], path: Path) -> Fixed:
    outcome = fix(source, str(path), _settings(rule), unsafe=rule.meta.fix is FixSafety.UNSAFE)
    assert outcome.result.crashes == (), outcome.result.crashes[0].traceback
    return outcome


@pytest.mark.parametrize("path", spread(FIXED, 40), ids=_name)
def test_pair(path: Path) -> None:
    rule = rule_of(path)
    bad, good = _bad(path), path.read_bytes()
    outcome = _fixed(bad, rule, path)
    assert outcome.source.decode() == good.decode(), outcome.result.notes
    assert {f.code for f in outcome.applied} == {rule.meta.code}
    ast.parse(good)
    after = Counter(f.code for f in outcome.result.findings)
    assert rule.meta.code not in after, "the finding is still there"
    if after:
        before = Counter(f.code for f in lint(bad, str(path), _settings(rule, fixable=False)).findings)
        assert after - before == Counter(), "the fix has raised another rule"
    assert _comments(bad) - _comments(good) == Counter(_may_be_dropped(path)), "a comment is lost"


@pytest.mark.parametrize("path", spread(FIXED, 20, 60), ids=_name)
def test_fixing_again_changes_nothing(path: Path) -> None:
    """Only a sample: where the finding is gone, which all pairs are asked, there is nothing that could be fixed."""
    again = _fixed(path.read_bytes(), rule_of(path), path)
    assert (again.source, again.applied) == (path.read_bytes(), ())


@pytest.mark.parametrize("path", spread(sorted(FIXTURES.glob("*/bad_nofix*.py")), 20), ids=_name)
def test_nothing_is_offered(path: Path) -> None:
    source = _EXPECT.sub("", path.read_bytes().decode())
    findings = lint(source.encode(), str(path), _settings(rule_of(path))).findings
    assert findings
    assert [f.code for f in findings if f.fix is not None] == []


def _comments(source: bytes) -> Counter[str]:
    tokens = tokenize.tokenize(io.BytesIO(source).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)


def _may_be_dropped(path: Path) -> list[str]:
    """Comments that go with the statement they explain, marked so: `# goes: …`."""
    return [c for c in _comments(_bad(path)).elements() if c.startswith("# goes: ") or "gradlint: ignore" in c]


@pytest.mark.parametrize("rule", [r for r in all_rules() if r.meta.fix is not FixSafety.NONE], ids=_code)
def test_every_fixer_is_shown_in_every_shape(rule: type[Rule]) -> None:
    folder = FIXTURES / rule.rule_name().replace("-", "_")
    names = {path.stem.removeprefix("fixed_") for path in folder.glob("fixed_*.py")}
    shown = {shape for shape in SHAPES for name in names if name == shape or name.startswith(f"{shape}_")}
    assert set(SHAPES) - shown - (set() if rule.hooks & OF_PATHS else OF_LOOPS) == set()
