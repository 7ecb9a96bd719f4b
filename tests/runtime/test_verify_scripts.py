"""`gradlint verify` on real mistakes of every kind that a run can show, and on right code that looks wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradlint.runtime.measure import all_measures
from tests.runtime.verified import Script, Verified, scripts, verify
from tests.sampling import sample

#: of every kind of mistake one; of right code a sample
WRONG = [script for script in scripts() if not script.right]
RIGHT = sample([script for script in scripts() if script.right], 12)


def _params(chosen: list[Script]) -> list[Any]:
    return [pytest.param(script, id=script.name, marks=pytest.mark.slow) for script in chosen]


def _run(script: Script, folder: Path) -> Verified:
    if script.missing:
        pytest.skip(f"needs {', '.join(script.missing)}")
    verified = verify(script, folder)
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


def test_every_rule_that_a_run_can_show_has_a_script() -> None:
    shown = {e.code for script in scripts() for e in script.expected()}
    assert shown == set(all_measures())
