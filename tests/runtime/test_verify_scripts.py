"""`gradlint verify` on real mistakes of every kind that a run can show, and on right code that looks wrong."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from gradlint.model import FixSafety
from gradlint.registry import by_code
from gradlint.runtime.measure import all_measures
from gradlint.runtime.prove.case import Case, all_cases
from gradlint.runtime.prove.proving import lacking
from tests.rules.expectations import expectations
from tests.runtime.verified import Script, Verified, scripts, verify, verify_in
from tests.sampling import sample

#: mistakes as people make them, several at a time; of right code a sample
WRONG = [script for script in scripts() if not script.right]
RIGHT = sample([script for script in scripts() if script.right], 12)
#: of every other mistake that a run of the user's own can show, the rule's own proof
PROOFS = [
    case
    for case in all_cases()
    if case.code in all_measures() and case.code not in {e.code for script in WRONG for e in script.expected()}
]


def _params(chosen: list[Script]) -> list[Any]:
    return [pytest.param(script, id=script.name, marks=pytest.mark.slow) for script in chosen]


def _run(script: Script, folder: Path) -> Verified:
    if script.missing:
        pytest.skip(f"needs {', '.join(script.missing)}")
    return _checked(verify(script, folder))


def _checked(verified: Verified) -> Verified:
    assert verified.out.startswith("{"), verified.err
    assert verified.after == verified.before, "the script was changed, or something was left beside it"
    assert not any(note.startswith("the recorder failed") for note in verified.data["notes"]), verified.data["notes"]
    return verified


@pytest.mark.parametrize("script", _params(WRONG))
def test_what_is_wrong_is_confirmed_and_cured(script: Script, tmp_path: Path) -> None:
    verified = _run(script, tmp_path)
    static = {(e.file, e.line, e.code): "cured" if e.fixable else "no-fix" for e in script.expected() if e.static}
    seen = {(e.file, e.line, e.code): "no-fix" for e in script.expected() if not e.static}
    assert verified.confirmed() == static
    assert verified.confirmed("runtime_only") == seen
    assert verified.code == 1
    assert verified.data["failure"] is None


@pytest.mark.slow
@pytest.mark.parametrize("case", PROOFS, ids=lambda case: case.code)
def test_what_proves_a_rule_is_confirmed_and_cured(case: Case, tmp_path: Path) -> None:
    if missing := lacking(case):
        pytest.skip(missing)
    place = tmp_path / "proof"
    place.mkdir()
    path = Path(shutil.copy(case.script, place))
    options = ("--extend-select", case.code, "--unsafe-fixes", "--nproc", str(case.ranks))
    verified = _checked(verify_in(place, path, *options))
    cure = "no-fix" if by_code()[case.code].meta.fix is FixSafety.NONE else "cured"
    wanted = {(path.name, e.line, e.code): cure for e in expectations(path.read_text(encoding="utf-8"))}
    assert verified.confirmed() == wanted
    assert verified.data["runtime_only"] == []
    assert verified.code == 1
    assert verified.data["failure"] is None


@pytest.mark.parametrize("script", _params(RIGHT))
def test_what_is_right_is_let_alone(script: Script, tmp_path: Path) -> None:
    verified = _run(script, tmp_path)
    assert script.expected() == []
    assert verified.confirmed() == {}
    assert verified.data["runtime_only"] == []
    assert verified.data["health"] == []
    assert verified.data["failure"] is None
    assert verified.data["steps"] > 1
    assert verified.code == 0


def test_every_mistake_that_a_run_can_show_is_tried() -> None:
    shown = {e.code for script in scripts() for e in script.expected()}
    assert shown | {case.code for case in PROOFS} == set(all_measures())
