"""`gradlint doctor`: one line each, and never a traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gradlint import __version__
from gradlint.cli import doctor as doctor_module
from gradlint.cli import run
from gradlint.registry import all_rules
from tests.cli.conftest import Command, Outcome
from tests.patience import PATIENCE
from tests.sources import CLIP_AFTER_STEP


def _answers(outcome: Outcome) -> dict[str, str]:
    return {line["name"]: line["answer"] for line in outcome.json()}


@pytest.fixture
def doctor(gradlint: Command) -> Command:
    """Without asking torch, which takes seconds."""
    return lambda *arguments: gradlint("doctor", "--no-torch", *arguments)


def test_one_line_each(doctor: Command, project: Path) -> None:
    outcome = doctor()
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert [line.split()[1] for line in lines[:8]] == [
        "gradlint", "python", "platform", "click", "libcst", "rich", "pygls", "watchfiles",
    ]  # fmt: skip
    assert lines[0].split()[2] == f"{__version__},"
    assert len(lines) == len(doctor("--output-format", "json").json())


def test_without_configuration_the_defaults_hold(doctor: Command, project: Path) -> None:
    answers = _answers(doctor("--output-format", "json"))
    on = sum(rule.meta.default for rule in all_rules())
    assert answers["configuration"] == f"none, the defaults hold: {on} of {len(all_rules())} rules on, preset default"
    assert answers["target torch"].startswith("not stated")
    assert "above it" not in answers
    assert answers["cache"].startswith(os.path.join(os.environ["GRADLINT_CACHE_DIR"], "gradlint-"))
    assert answers["cache"].endswith(".json, not made yet")


def test_the_configuration_that_holds_and_the_one_above(doctor: Command, project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.gradlint]\n")
    (project / "sub").mkdir()
    (project / "sub" / "gradlint.toml").write_text('select = ["GL101"]\ntarget-torch = "2.4"\n')
    answers = _answers(doctor("sub", "--output-format", "json"))
    file = project / "sub" / "gradlint.toml"
    assert answers["configuration"] == f"{file}: 2 of {len(all_rules())} rules on, preset default"
    assert answers["above it"].startswith(f"{project / 'pyproject.toml'}, ")
    assert answers["target torch"] == f"2.4, from {file}"


def test_the_target_comes_from_dependencies_above(doctor: Command, project: Path) -> None:
    (project / "requirements.txt").write_text("torch>=2.1\n")
    (project / "sub").mkdir()
    (project / "sub" / "train.py").write_text("")
    answers = _answers(doctor("sub/train.py", "--output-format", "json"))
    assert answers["target torch"] == f"2.1, from {project / 'requirements.txt'}"


@pytest.mark.parametrize("text", ["selct = []\n", "select = [\n", 'select = ["GL999"]\n'])
def test_a_wrong_configuration_is_told_in_its_line(doctor: Command, project: Path, text: str) -> None:
    (project / "gradlint.toml").write_text(text)
    outcome = doctor("--output-format", "json")
    assert outcome.code == 2
    (wrong,) = [line for line in outcome.json() if line["state"] == "wrong"]
    assert wrong["name"] == "configuration"
    assert str(project / "gradlint.toml") in wrong["answer"]
    assert outcome.json()[-1]["name"] == "git", "the other lines are told all the same"
    assert doctor().out.count("\n") == len(outcome.json())


def test_a_baseline_is_opened(doctor: Command, gradlint: Command, project: Path) -> None:
    (project / "gradlint.toml").write_text('baseline = "known.json"\n')
    outcome = doctor("--output-format", "json")
    assert outcome.code == 2
    assert "cannot be read" in _answers(outcome)["baseline"]
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    gradlint("check", "--write-baseline", "known.json")
    outcome = doctor("--output-format", "json")
    assert outcome.code == 0
    assert _answers(outcome)["baseline"] == f"{project / 'known.json'}: 1 known finding"


def test_the_cache_is_measured(doctor: Command, gradlint: Command, project: Path) -> None:
    (project / "gradlint.toml").write_text("")
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    gradlint("check")
    answer = _answers(doctor("--output-format", "json"))["cache"]
    assert re.search(r"gradlint-.*\.json, \d+ kB$", answer)


def test_what_is_not_installed_is_told_with_how_to_install_it(
    doctor: Command, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    monkeypatch.setattr(doctor_module, "_version", lambda package: None)
    monkeypatch.setenv("PATH", str(project))
    outcome = doctor("--output-format", "json")
    assert outcome.code == 0
    answers = _answers(outcome)
    for package, extra in (("pygls", "lsp"), ("watchfiles", "watch"), ("torch", "runtime")):
        assert f'pip install "torch-gradlint[{extra}]"' in answers[package]
    assert answers["git"] == "not found: only --diff-base needs it"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("raise ImportError('libcudart.so is missing')", "cannot be imported: ImportError: libcudart.so is missing"),
        ("raise OSError('no libcudart.so\\n  looked in:\\nnowhere')", "cannot be imported: OSError: no libcudart.so"),
        ("import os; os._exit(11)", "cannot be imported: exit code 11"),
        ("import time; time.sleep(600)", "did not answer within"),
        ("", "cannot be imported: AttributeError"),
    ],
)
def test_a_broken_torch_breaks_nothing(
    gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch, content: str, words: str
) -> None:
    (project / "fake" / "torch").mkdir(parents=True)
    (project / "fake" / "torch" / "__init__.py").write_text(content)
    monkeypatch.setenv("PYTHONPATH", str(project / "fake"))
    monkeypatch.setattr(doctor_module, "_PATIENCE", 1.0 if "sleep" in content else PATIENCE)
    monkeypatch.setattr(doctor_module, "_version", lambda package: "2.0")
    outcome = gradlint("doctor", "--output-format", "json")
    assert outcome.code == 0
    assert words in _answers(outcome)["torch"]


def test_devices_are_named(gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "fake" / "torch").mkdir(parents=True)
    (project / "fake" / "torch" / "__init__.py").write_text(
        "from types import SimpleNamespace as N\n__version__ = '9.9'\nversion = N(cuda='13.0')\n"
        "cuda = N(device_count=lambda: 2, get_device_name=lambda n: f'Card {n}', is_available=lambda: True)\n"
        "backends = N(mps=N(is_available=lambda: True))\nprint('hello from a plug-in')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(project / "fake"))
    monkeypatch.setattr(doctor_module, "_version", lambda package: "9.9")
    monkeypatch.setattr(doctor_module, "_PATIENCE", PATIENCE)
    answer = _answers(gradlint("doctor", "--output-format", "json"))["torch"]
    assert answer == "9.9, built for CUDA 13.0, CUDA: Card 0, Card 1, MPS"


@pytest.mark.slow
def test_the_real_torch_is_asked_in_another_process(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "torch.py").write_text("raise SystemExit('a file of the user')\n")
    script = (
        f"import sys; from gradlint.cli import doctor, run; doctor._PATIENCE = {PATIENCE}; "
        "code = run(['doctor']); sys.exit(code or 'torch' in sys.modules)"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env={**os.environ, "NO_COLOR": "1"}, capture_output=True,
        text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    (line,) = [line for line in outcome.stdout.splitlines() if line.startswith("+ torch ")]
    assert "built with" in line or "built for CUDA" in line


def test_a_path_that_does_not_exist(doctor: Command) -> None:
    assert doctor("nowhere").code == 2


def test_a_question_that_fails_costs_its_own_line_only(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(path: str) -> doctor_module.Line:
        raise OSError("stale file handle")

    monkeypatch.setattr(doctor_module, "_cache", broken)
    assert run(["doctor", "--no-torch", "--output-format", "json"]) == 0
    lines = {line["name"]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["cache"]["answer"] == "cannot be told: OSError: stale file handle"
