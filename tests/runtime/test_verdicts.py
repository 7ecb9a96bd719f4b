"""Verdicts on recordings that are made up: the machine's word, and no word where nothing was seen."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gradlint.config import Settings
from gradlint.model import Cell, Severity
from gradlint.registry import all_rules
from gradlint.runtime.health import Symptom
from gradlint.runtime.measure import Spot, all_measures
from gradlint.runtime.recording import (
    BackwardRan,
    Clipped,
    Gradient,
    Happening,
    Met,
    Place,
    Raised,
    Recording,
    Stepped,
    Unscaled,
)
from gradlint.runtime.report import printed
from gradlint.runtime.verdicts import Side, Verdicts, Verification

TEXT = """\
for x in data:
    loss(x).backward()
    scaler.unscale_(optimizer)
    clip_grad_norm_(parameters, 1.0)
    scaler.step(optimizer)
"""
ONE = ("optimizer1",)


def _at(line: int) -> tuple[Place, ...]:
    return (Place("train.py", line, "<module>", 1),)


def _case(*happenings: Happening) -> Verdicts:
    met = [
        Met(0, id="optimizer1", role="optimizer", type="SGD", optimizers=ONE),
        Met(1, id="scaler1", role="scaler", type="GradScaler", enabled=True),
    ]
    return Verdicts(Side([Recording(1, happenings=[*met, *happenings])], 0.0, {"train.py": TEXT}))


def _turn(first: int) -> list[Happening]:
    """A backward, an unscale_ and a clip, as they should be."""
    true = Gradient("optimizer1", 3.0, present=2, total=2, backwards=1)
    return [
        BackwardRan(first, _at(2), ONE, (true,), scaler="scaler1", scale=256.0),
        Unscaled(first + 1, _at(3), ONE, (true,), scaler="scaler1", owner="optimizer1", scale=256.0),
        Clipped(first + 2, _at(4), ONE, (true,), (true,), limit=1.0, returned=3.0, parameters=2, present=2),
    ]


def _step(index: int) -> Stepped:
    used = Gradient("optimizer1", 1.0, present=2, total=2, backwards=1)
    return Stepped(index, _at(5), ONE, (), (used,), owner="optimizer1", number=1, scaler="scaler1")


@pytest.mark.parametrize("code", ["GL101", "GL102", "GL201", "GL207"])
def test_what_ran_and_was_right_is_refuted_only_if_a_step_was_taken(code: str) -> None:
    spot, settings = Spot("train.py", 4), Settings()
    assert _case(*_turn(2), _step(5)).look(code, spot, settings).holds is False
    unused = _case(*_turn(2)).look(code, spot, settings)
    assert (unused.holds, unused.text) == (None, "no optimizer step was taken with these gradients")


def test_a_line_that_did_not_run_shows_nothing() -> None:
    backward = _turn(2)[0]
    shown = _case(backward, _step(5)).look("GL201", Spot("train.py", 4), Settings())
    assert (shown.holds, shown.text) == (None, "this line did not run in these 1 steps")


def test_a_call_that_torch_refuses_is_an_event() -> None:
    """No update between two turns: the second unscale_ raises, and the step before it is to blame."""
    refused = Raised(
        7, _at(3), ONE, type="RuntimeError", message="unscale_() is being called after step().", during="unscale",
        scaler="scaler1", owner="optimizer1",
    )  # fmt: skip
    backward = BackwardRan(6, _at(2), ONE, scaler="scaler1", scale=256.0)
    case = _case(*_turn(2), _step(5), backward, refused)
    shown = case.look("GL204", Spot("train.py", 5), Settings())
    assert shown.holds is True
    assert "it raised RuntimeError: unscale_() is being called after step()." in shown.text
    assert refused.index in shown.marks
    assert case.crashes == []


def test_every_verdict_is_the_machines_or_a_measurement() -> None:
    runs = {rule.meta.code for rule in all_rules() if rule.meta.runs}
    assert runs <= set(all_measures())
    assert {code for code, measure in all_measures().items() if not measure.decides} <= runs


def test_a_rule_that_no_run_can_show_has_no_measure() -> None:
    silent = {rule.meta.code for rule in all_rules() if rule.meta.unshowable}
    assert silent
    assert not silent & set(all_measures())


@pytest.mark.parametrize(
    ("line", "said"), [(7, "cell 3, line 3: all wrong"), (2, "line 2: all wrong"), (0, ": all wrong")]
)
def test_what_a_run_shows_is_told_by_cell_and_line(line: int, said: str) -> None:
    symptom = Symptom("no-gradient", Severity.WARNING, "all wrong", "train.ipynb", line)
    shown = Verification("train.ipynb", health=[symptom], cells={"train.ipynb": (Cell(3, 5, 4),)})
    out = io.StringIO()
    Console(file=out, width=100).print(printed(shown))
    assert f"no-gradient{' ' if line else ''}{said}" in out.getvalue()


def test_advice_is_told_and_is_no_failure() -> None:
    advice, warning = (Symptom("x", severity, "said") for severity in (Severity.ADVICE, Severity.WARNING))
    assert not Verification("train.py", health=[advice]).confirmed
    assert Verification("train.py", health=[advice, warning]).confirmed
