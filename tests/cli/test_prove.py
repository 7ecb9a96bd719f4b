"""`gradlint prove` on the command line."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from gradlint.runtime.prove.case import Measured, chosen
from gradlint.runtime.prove.proving import Proof, Proofs
from tests.cli.conftest import Command
from tests.runtime.forked import workers_forked


def _proof(code: str, passed: bool | None, note: str = "", *, broken: bool = False) -> Proof:
    (case,) = chosen([code])
    before = Measured({"updates": 0}, mistaken=True, right=False, sentence="4 backwards, 0 updates")
    after = Measured({"updates": 4}, mistaken=False, right=True, sentence="4 backwards, 4 updates [x]")
    if passed is None or broken:
        return Proof(case, "cpu", passed=passed, note=note, broken=broken)
    return Proof(case, "cpu", "safe", before, after, passed, note)


@pytest.fixture
def proving(monkeypatch: pytest.MonkeyPatch) -> list[Proof]:
    """What the runs will have shown."""
    made: list[Proof] = []
    monkeypatch.setattr("gradlint.cli.prove.run", lambda cases, device, progress: Proofs(made))
    return made


def test_text(gradlint: Command, proving: list[Proof]) -> None:
    proving += [_proof("GL405", True), _proof("GL306", None, "needs accelerate: pip install accelerate")]
    outcome = gradlint("prove", "--device", "cpu")
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[:3] == [
        "GL405  method-not-called: proved",
        "       before: 4 backwards, 0 updates",
        "       after: 4 backwards, 4 updates [x]",
    ]
    assert lines[3:5] == ["GL306  loss-divided-twice: not run here", "       needs accelerate: pip install accelerate"]
    assert lines[5].startswith("1 of 2 proved, 1 not run here on cpu in ")


def test_what_would_be_different_on_a_gpu(gradlint: Command, proving: list[Proof]) -> None:
    proving += [_proof("GL405", True), _proof("GL201", True), _proof("GL501", True), _proof("GL503", True)]
    said = gradlint("prove", "--device", "cpu").out
    assert "On a GPU autocast and scaler are the GPU's own: GL201.\n" in said
    assert "if each has a GPU of its own: GL501, GL503.\n" in said


def test_the_table_fits_a_terminal_of_80_columns(
    proving: list[Proof], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gradlint.cli.prove import _table

    monkeypatch.setenv("COLUMNS", "80")
    _table(Proofs([_proof(case.code, True) for case in chosen(())]))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(lines)
    for case in chosen(()):
        assert case.code in words
        assert case.name in words, "no name is cut in two"


def test_something_not_proved(gradlint: Command, proving: list[Proof]) -> None:
    proving += [_proof("GL405", True), _proof("GL404", False, "the run does not show the mistake")]
    outcome = gradlint("prove", "--device", "cpu", "--output-format", "json")
    assert outcome.code == 1
    assert [(record["code"], record["passed"]) for record in outcome.json()] == [("GL405", True), ("GL404", False)]
    assert outcome.json()[1]["note"] == "the run does not show the mistake"


def test_a_run_that_failed(gradlint: Command, proving: list[Proof]) -> None:
    proving += [_proof("GL405", False, "the run did not end: the time is over", broken=True)]
    outcome = gradlint("prove", "--device", "cpu")
    assert outcome.code == 3
    assert "NOT PROVED" in outcome.out
    assert "the time is over" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("GL401", "GL999"), "unknown rule `GL999`; did you mean"),
        (("clip-after-stepp",), "did you mean `clip-after-step`?"),
        (("GL703",), "no run can show GL703 unmonitored-gradients"),
        (("--device", "tpu"), "'tpu' is not one of"),
        (("--output-format", "xml"), "'xml' is not one of"),
    ],
)
def test_usage(gradlint: Command, arguments: tuple[str, ...], said: str) -> None:
    outcome = gradlint("prove", *arguments)
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.out == ""


def test_without_torch(gradlint: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name == "torch" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    outcome = gradlint("prove", "GL401")
    assert outcome.code == 2
    assert "pip install 'torch-gradlint[runtime]'" in outcome.err


@pytest.mark.slow
def test_for_real(gradlint: Command) -> None:
    """But for the start of its worker, which is that of `tests/test_packaging.py`."""
    with workers_forked():
        outcome = gradlint("prove", "unscaled-accumulation-loss", "--device", "cpu", "--output-format", "json")
    assert outcome.code == 0, outcome.out + outcome.err
    (record,) = outcome.json()
    assert (record["code"], record["device"], record["passed"]) == ("GL301", "cpu", True)
    assert record["before"]["gradient_to_large_batch"] == pytest.approx(4.0, rel=1e-4)
    assert record["after"]["gradient_to_large_batch"] == pytest.approx(1.0, rel=1e-4)
