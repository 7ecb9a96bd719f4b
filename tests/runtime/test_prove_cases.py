"""The scripts of `gradlint prove`: the linter finds their mistake and nothing else, and the fixer mends it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from gradlint.config import Layer, Settings
from gradlint.config.reading import ConfigError
from gradlint.engine import lint
from gradlint.model import FixSafety
from gradlint.registry import all_rules, by_code
from gradlint.runtime.prove.case import Case, all_cases, chosen, proofs
from gradlint.runtime.prove.proving import BY_HAND, PairError, pair
from tests.patience import PATIENCE
from tests.rules.expectations import expectations
from tests.sampling import spread

CASES = {case.code: case for case in all_cases()}
#: what the project promises to prove: every rule that does not say why no run can show it
PROMISED = [rule.meta.code for rule in all_rules() if not rule.meta.unshowable]


def _settings(code: str) -> Settings:
    return Settings(layers=(Layer(extend_select=(code,), fixable=(code,)),))


def test_what_is_promised_is_there() -> None:
    assert list(CASES) == PROMISED


def test_every_script_belongs_to_a_case() -> None:
    used = {case.script for case in CASES.values()}
    used |= {case.right for case in CASES.values() if case.right is not None}
    assert set(proofs().glob("*/proof*.py")) == used


@pytest.mark.parametrize("case", spread(list(CASES.values()), 12), ids=lambda case: case.code)
def test_the_linter_finds_it_and_nothing_else(case: Case) -> None:
    text = case.script.read_text(encoding="utf-8")
    findings = lint(text.encode(), case.script.name, _settings(case.code)).findings
    expected = [(expectation.line, expectation.code) for expectation in expectations(text)]
    assert [(finding.span.start.row, finding.code) for finding in findings] == expected
    assert [code for _, code in expected] == [case.code]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.code)
def test_the_fixed_copy(case: Case) -> None:
    """To the letter the fixes of a rule stand in its `expected.txt`; what this one does is measured by its run."""
    made = pair(case)
    ast.parse(made.after)
    assert made.left == 0
    assert lint(made.after.encode(), case.script.name, _settings(case.code)).findings == ()
    promised = by_code()[case.code].meta.fix
    assert made.fix == (BY_HAND if promised is FixSafety.NONE else promised.value)


def test_a_script_without_the_mistake_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["GL101"]
    (tmp_path / "clip_after_step").mkdir()
    (tmp_path / "clip_after_step" / "proof.py").write_text("print('nothing to find')\n", encoding="utf-8")
    monkeypatch.setattr("gradlint.runtime.prove.case.proofs", lambda: tmp_path)
    with pytest.raises(PairError, match="does not find GL101"):
        pair(case)


def test_choosing() -> None:
    assert [case.code for case in chosen(())] == sorted(CASES)
    assert [case.code for case in chosen(["gl301", "missing-no-sync"])] == ["GL301", "GL501"]
    assert [case.code for case in chosen(["GL4"])] == [code for code in CASES if code.startswith("GL4")]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [("GL999", "did you mean"), ("clip-after-stop", "`clip-after-step`"), ("GL703", "no run can show GL703")],
)
def test_choosing_what_is_not_there(wrong: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        chosen([wrong])


@pytest.mark.slow
def test_choosing_costs_no_torch() -> None:
    script = "import sys, gradlint.runtime.prove.proving as p, gradlint.runtime.prove.case as c; c.all_cases(); "
    script += "print('torch' in sys.modules)"
    outcome = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert outcome.stdout.strip() == "False"
