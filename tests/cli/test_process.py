"""The installed command as a process: start-up, pipes, signals and what is imported."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gradlint import __version__
from tests.patience import PATIENCE
from tests.sources import CLIP_AFTER_STEP


def _run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gradlint", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def test_version(tmp_path: Path) -> None:
    assert _run("--version", cwd=tmp_path).stdout.strip() == f"gradlint, version {__version__}"


def test_unknown_command_is_a_usage_error(tmp_path: Path) -> None:
    assert _run("chekc", cwd=tmp_path).returncode == 2


def test_module_runs_and_exits_with_findings(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CLIP_AFTER_STEP)
    outcome = _run("check", cwd=tmp_path)
    assert outcome.returncode == 1
    assert outcome.stderr == ""


@pytest.mark.slow
def test_piped_output_imports_nothing_it_does_not_need(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CLIP_AFTER_STEP)
    script = (
        "import sys; from gradlint.cli import run;"
        "check = ['check', 'train.py', '--no-cache', '--output-format'];"
        "code = max(run([*check, name]) for name in ('full', 'concise', 'json'));"
        "heavy = {'rich', 'multiprocessing', 'pathspec', 'torch', 'importlib.metadata', 'ast'} & set(sys.modules);"
        "print(sorted(heavy), file=sys.stderr); sys.exit(code)"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert outcome.returncode == 1
    # `ast` comes with inspect, `importlib.metadata` may come with an editable install
    assert not set(eval(outcome.stderr)) - {"ast", "importlib.metadata"}


def test_a_file_without_gradients_does_not_import_the_parser(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("x = 1\n")
    script = (
        "import sys; from gradlint.cli import run; code = run(['check', '--no-cache']); "
        "sys.exit('libcst' in sys.modules or code)"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, check=False, timeout=PATIENCE
    )
    assert outcome.returncode == 0


@pytest.mark.skipif(os.name != "posix", reason="POSIX pipes")
@pytest.mark.slow
def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"train_{number}.py").write_text(CLIP_AFTER_STEP * 20)
    # more than the pipe and `head` hold (100 kB), and nothing but findings: what could be mended is not asked here
    command = f"{sys.executable} -m gradlint check --no-cache --unfixable ALL | head -n 1"
    outcome = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert outcome.stdout.startswith("GL")
    assert outcome.stderr == ""


@pytest.mark.skipif(os.name != "posix", reason="POSIX signals")
def test_control_c_exits_with_130_and_no_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gradlint", "check", "-"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write("#" * 1_000_000)  # more than a pipe holds: when this is through, it reads
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in err


@pytest.mark.slow
def test_no_colour_and_ascii_terminals_are_respected(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CLIP_AFTER_STEP.replace("batch", "größe"), encoding="utf-8")
    outcome = _run("check", cwd=tmp_path, FORCE_COLOR="1", NO_COLOR="1", PYTHONIOENCODING="ascii")
    assert outcome.returncode == 1
    assert "\x1b" not in outcome.stdout


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="POSIX file descriptors")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_error(tmp_path: Path, closed: str) -> None:
    (tmp_path / "clean.py").write_text("x = 1\n")
    command = f"{shlex.quote(sys.executable)} -m gradlint check --no-cache {closed}"
    assert subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True).returncode == 0


@pytest.mark.skipif(os.name != "posix", reason="no folder vanishes under a process elsewhere")
def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = f"cd gone && rmdir ../gone && {shlex.quote(sys.executable)} -m gradlint check"
    ran = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 2
    assert "does not exist any more" in ran.stderr
