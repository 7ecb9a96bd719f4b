"""Another distribution is called `gradlint`, too: what is said where it is installed as well."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gradlint
import torch_gradlint
from gradlint.cli import run
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
METADATA = "Metadata-Version: 2.1\nName: gradlint\nVersion: 9.9\nSummary: Gradients of magnets.\n"


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that holds what the other distribution says of itself."""
    about = tmp_path / "gradlint-9.9.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(METADATA)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_without_the_other_there_is_nothing_to_tell() -> None:
    assert torch_gradlint.foreign() is None
    assert torch_gradlint.clash() is None
    assert torch_gradlint.is_ours()


def test_doctor_tells_of_the_other(other: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--no-torch"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("- name ")]
    assert "`gradlint` 9.9 (Gradients of magnets)" in line
    assert "pip uninstall gradlint" in line


def test_ours_with_their_init(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delattr(gradlint, "DISTRIBUTION")
    assert run(["check"]) == 2
    assert capsys.readouterr().err.startswith("gradlint: error: files of torch-gradlint are missing or replaced")


def test_a_module_of_ours_that_is_theirs_now(
    other: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "gradlint.cli.rules", None)
    assert run(["rules"]) == 3
    told = capsys.readouterr().err
    assert "internal error: ModuleNotFoundError" in told
    assert "another distribution, `gradlint` 9.9" in told


@pytest.mark.parametrize("installed", [True, False])
def test_the_command_does_not_end_in_a_traceback(other: Path, installed: bool) -> None:
    """Theirs fails as it is imported: ours says why, and whether it is still there."""
    (other / "gradlint").mkdir()
    (other / "gradlint" / "__init__.py").write_text("import a_package_of_theirs\n")
    if not installed:
        (other / "gradlint-9.9.dist-info" / "METADATA").unlink()
        (other / "gradlint-9.9.dist-info").rmdir()
    # in a folder of its own, as installed: what a script stands beside is imported before all else
    command = other / "bin" / "torch_gradlint.py"
    command.parent.mkdir()
    shutil.copy(ROOT / "torch_gradlint.py", command)
    done = subprocess.run(
        [sys.executable, str(command), "check"], env={**os.environ, "PYTHONPATH": str(other)}, cwd=other,
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 2
    expected = (
        "another distribution, `gradlint` 9.9" if installed else "files of torch-gradlint are missing or replaced"
    )
    assert done.stderr.startswith(f"gradlint: error: {expected}")
    assert "Traceback" not in done.stderr
    assert "a_package_of_theirs" in done.stderr


def test_the_command_is_called_by_either_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for program, name in (
        ("/bin/torch-gradlint", "torch-gradlint"),
        ("/bin/gradlint", "gradlint"),
        ("x.py", "gradlint"),
    ):
        monkeypatch.setattr(sys, "argv", [program])
        assert run(["check", "--help"]) == 0
        assert capsys.readouterr().out.startswith(f"Usage: {name} check ")
