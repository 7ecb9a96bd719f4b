"""What the fuzzer checks can fail: crashes, fixes that are none, formats that do not encode, loops without an end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

import benchmarks.fuzz as fuzz
from gradlint import engine
from gradlint.model import Edit, FileResult, Position, Span
from gradlint.records import replace
from tests.fuzz import holds
from tests.fuzz.holds import PROGRAM, Failed, check
from tests.fuzz.mutants import Input

GIVEN = Input("train.py", PROGRAM)
WRONG = """import torch


def other(model, loader, optimizer):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    holds._linted.cache_clear()
    yield
    holds._linted.cache_clear()


def _failing(given: Input) -> str:
    with pytest.raises(Failed) as failed:
        check(given)
    return failed.value.kind


def test_a_right_answer_gives_the_marks_of_its_way() -> None:
    kinds = {mark[0] for mark in check(GIVEN) if isinstance(mark, tuple)}
    assert {"path", "fixed", "GL101"} <= kinds


def test_a_crash_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise LookupError

    monkeypatch.setattr("gradlint.paths.explorer.Explorer.paths", broken)
    assert _failing(GIVEN) == "crash"


@pytest.mark.parametrize(("first", "kind"), [("(", "unparsable"), (WRONG, "worse")], ids=["unparsable", "worse"])
def test_a_bad_fix_is_found(first: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is to be mended, the first row is exchanged."""
    lint = engine.lint
    edits = (Edit(Span(Position(1, 1), Position(1, 13)), first),)

    def offering(*given: Any, **named: Any) -> FileResult:
        result = lint(*given, **named)
        found = (f if f.fix is None else replace(f, fix=replace(f.fix, edits=edits)) for f in result.findings)
        return replace(result, findings=tuple(found))

    monkeypatch.setattr(engine, "lint", offering)
    assert _failing(GIVEN) == kind


def test_a_failing_fixer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise LookupError

    monkeypatch.setattr("gradlint.repair.trial.Trial.offer", broken)
    assert _failing(GIVEN) == "fixer"


def test_a_format_that_cannot_be_written_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holds, "concise", lambda *_, **__: ["\ud800"])
    assert _failing(GIVEN) == "format"


# -- the fuzzer itself


def test_a_loop_without_an_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(given: Input) -> NoReturn:
        while True:
            pass

    monkeypatch.setattr(fuzz, "check", endless)
    found = fuzz.tried(GIVEN, 0.05)
    assert isinstance(found, Failed)
    assert found.kind == "hang"


def test_finds_are_made_small() -> None:
    given = Input("train.py", b"first = 1\nsecond = [1, 2, 3]\nthird = 3\n")
    assert fuzz.smaller(given, lambda fewer: b"2" in fewer.data).data == b"2"


def test_finds_of_one_cause_are_alike() -> None:
    one, other = (Failed("crash", f"Traceback\n  line {n}\nValueError: <A at 0x{n}f> at {n}") for n in (1, 23))
    assert fuzz.alike(one) == fuzz.alike(other) != fuzz.alike(Failed("crash", "TypeError"))


@pytest.mark.slow
def test_a_worker_that_dies_leaves_what_it_had_in_hands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def die(self: fuzz.Worker, until: float) -> None:
        self._shared.begin(7, 0, GIVEN)
        os._exit(3)

    monkeypatch.setattr(fuzz.Worker, "run", die)
    assert fuzz.watched(fuzz.Worker, 1, 0.0, tmp_path) == (8, 1)
    (kept,) = tmp_path.glob("death-*-train.py")
    assert kept.read_bytes() == PROGRAM


def test_a_find_is_the_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = 0

    def ended(guide: type[fuzz.Worker], seed: int, until: float, out: Path | None) -> tuple[int, int]:
        time.sleep(0.01)
        return 3, found

    monkeypatch.setattr("sys.argv", ["fuzz", "--minutes", "0.0001", "--seed", "5", "--guide", "paths"])
    monkeypatch.setattr(fuzz, "watched", ended)
    assert fuzz.main() == 0
    found = 1
    assert fuzz.main() == 1
    assert "3 inputs in all, 1 finds" in capsys.readouterr().out
