"""`gradlint verify` on the command line: what it takes, what it says, and how it exits; nothing is run."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradlint.model import Severity
from gradlint.runtime.recording import Recording, Stepped
from gradlint.runtime.verdicts import Claim, Cure, Judged, Side, Verdict, Verification
from tests.cli.conftest import Command
from tests.sources import CLIP_AFTER_STEP

LINE = 8


@pytest.fixture(autouse=True)
def script(project: Path) -> None:
    """There is one, and nobody reads it."""
    (project / "train.py").touch()


def _judged(verdict: Verdict, after_fix: Cure = Cure.NO_FIX) -> Judged:
    about = ("GL401", "missing-zero-grad", Severity.ERROR, "old gradients", os.path.abspath("train.py"), LINE)
    return Judged(*about, verdict, "7 [of] 7 steps", after_fix, "cleared 7 times")


def _verification(*found: Judged, failure: str = "") -> Verification:
    recording = Recording(1, happenings=[Stepped(i, owner="optimizer1", number=i + 1) for i in range(3)])
    side = Side([recording])
    silent = Claim("GL703", "unmonitored-gradients", Severity.ADVICE, "text", os.path.abspath("train.py"), 3)
    after = side if any(j.after_fix is Cure.CURED for j in found) else None
    return Verification(
        "train.py", ("--lr", "1"), findings=list(found), unshowable=[silent], before=side, after=after, failure=failure
    )


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Verification]:
    """What the verification will say; nothing is run."""
    made: list[Verification] = []
    monkeypatch.setattr("gradlint.cli.verify.run", lambda wanted, tree, progress: made[0])
    return made


@pytest.mark.parametrize(
    ("verdict", "failure", "code"),
    [
        (Verdict.CONFIRMED, "", 1),
        (Verdict.REFUTED, "", 0),
        (Verdict.NOT_SHOWN, "", 0),
        (Verdict.REFUTED, "Traceback", 3),
        (Verdict.CONFIRMED, "Traceback", 3),
    ],
)
def test_exit_codes(gradlint: Command, found: list[Verification], verdict: Verdict, failure: str, code: int) -> None:
    found.append(_verification(_judged(verdict), failure=failure))
    assert gradlint("verify", "train.py", "--device", "cpu").code == code


@pytest.mark.parametrize(("verdicts", "code"), [((), 3), ((Verdict.NOT_SHOWN,), 3), ((Verdict.CONFIRMED,), 1)])
def test_a_run_without_a_step(
    gradlint: Command, found: list[Verification], verdicts: tuple[Verdict, ...], code: int
) -> None:
    """What raises before the first step is confirmed; of anything else nothing is known, and that is not 0."""
    found.append(replace(_verification(*map(_judged, verdicts)), before=Side([Recording(1)])))
    outcome = gradlint("verify", "train.py", "--device", "cpu")
    assert outcome.code == code
    assert ("nothing was judged" in outcome.out) is (code == 3)
    assert ("no optimizer step was taken" in outcome.err) is (code == 3)


def test_text(gradlint: Command, found: list[Verification]) -> None:
    found.append(_verification(_judged(Verdict.CONFIRMED, Cure.CURED), _judged(Verdict.NOT_SHOWN)))
    outcome = gradlint("verify", "train.py", "--device", "cpu")
    said = " ".join(outcome.out.split())
    assert "GL401 missing-zero-grad confirmed 7 [of] 7 steps cured line 8 cleared 7 times" in said
    assert "GL401 missing-zero-grad not shown" in said
    assert "GL703 line 3: no run can show this: it changes what is known of a run, not the run" in said
    assert "1 confirmed (1 cured by the fix), 1 not shown in 3 optimizer steps on cpu, seed 0." in said


def test_the_user_is_told_that_the_script_runs(gradlint: Command, found: list[Verification]) -> None:
    found.append(_verification())
    outcome = gradlint("verify", "train.py", "--device", "cpu", "--output-format", "json")
    assert outcome.err == "gradlint runs train.py on this machine (cpu), for 8 optimizer steps\n"
    assert "runs SCRIPT (or `-m MODULE`), with ARGS, on this machine" in " ".join(
        gradlint("verify", "--help").out.split()
    )


def test_json(gradlint: Command, found: list[Verification]) -> None:
    found.append(_verification(_judged(Verdict.CONFIRMED, Cure.CURED), failure="ValueError: no data"))
    outcome = gradlint("verify", "train.py", "--device", "cpu", "--output-format", "json", "--", "--lr", "1")
    assert outcome.json() == {
        "script": "train.py",
        "arguments": ["--lr", "1"],
        "device": "cpu",
        "nproc": 1,
        "seed": 0,
        "steps": 3,
        "findings": [
            {
                "code": "GL401",
                "name": "missing-zero-grad",
                "severity": "error",
                "filename": os.path.abspath("train.py"),
                "line": 8,
                "message": "old gradients",
                "verdict": "confirmed",
                "evidence": "7 [of] 7 steps",
                "after_fix": "cured",
                "after": "cleared 7 times",
            }
        ],
        "runtime_only": [],
        "health": [],
        "not_shown_by_a_run": [
            {
                "code": "GL703",
                "name": "unmonitored-gradients",
                "severity": "advice",
                "filename": os.path.abspath("train.py"),
                "line": 3,
                "message": "text",
            }
        ],
        "notes": [],
        "failure": "ValueError: no data",
    }
    assert "gradlint: the script failed; this is its own output:\n  | ValueError: no data\n" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("missing.py",), "File 'missing.py' does not exist"),
        (("folder",), "File 'folder' is a directory"),
        (("notes.md",), "notes.md is not a Python script"),
        (("-m", "nowhere.train"), "-m: there is no module nowhere.train to run"),
        ((), "Missing argument 'SCRIPT'"),
        (("train.py", "--epochs", "3"), "go behind `--`: gradlint verify SCRIPT -- --epochs …"),
        (("train.py", "--device", "tpu"), "'tpu' is not one of"),
        (("train.py", "--steps", "0"), "0 is not in the range"),
        (("train.py", "--steps", "many"), "'many' is not a valid integer"),
        (("train.py", "--timeout", "0"), "0.0 is not in the range"),
        (("train.py", "--nproc", "0"), "0 is not in the range"),
        (("train.py", "--output-format", "xml"), "'xml' is not one of"),
        (("train.py", "--html", "nowhere/page.html"), "the folder nowhere does not exist"),
        (("train.py", "--html", "folder"), "folder is a folder"),
        (("train.py", "--device", "cpu", "--select", "GL999"), "GL999"),
        (("train.py", "--config", "x.toml", "--isolated"), "cannot be used together"),
    ],
)
def test_usage(gradlint: Command, arguments: tuple[str, ...], said: str) -> None:
    Path("notes.md").touch()
    Path("folder").mkdir()
    outcome = gradlint("verify", *arguments)
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.out == ""
    assert "Traceback" not in outcome.err


def test_without_torch(gradlint: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name == "torch" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    Path("train.py").write_text(CLIP_AFTER_STEP)
    outcome = gradlint("verify", "train.py")
    assert outcome.code == 2
    assert 'needs torch, which is not installed here: pip install "torch-gradlint[runtime]"' in outcome.err
    assert gradlint("check", "train.py").code == 1, "linting needs no torch"


def test_a_report_that_cannot_be_written(
    gradlint: Command, found: list[Verification], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(result: Verification, path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gradlint.cli.verify.write", full)
    found.append(_verification())
    outcome = gradlint("verify", "train.py", "--device", "cpu", "--html", "page.html")
    assert outcome.code == 2
    assert "page.html cannot be written: No space left on device" in outcome.err


def test_no_cuda(gradlint: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch sees is asked in `tests/runtime/test_launch_parts.py`."""
    monkeypatch.setattr("gradlint.runtime.launch.run.available", dict)
    outcome = gradlint("verify", "train.py", "--device", "cuda")
    assert outcome.code == 2
    assert "--device cuda: torch sees no cuda device on this machine" in outcome.err
    assert outcome.out == ""
