"""Fixing as users meet it: the real engine, real files, bytes and exit codes, and processes where they matter."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gradlint.cli import run
from gradlint.config import Settings
from gradlint.engine import fix, lint
from gradlint.model import Edit, Position, Span, mended
from gradlint.records import replace
from gradlint.repair.rounds import edited
from tests.patience import PATIENCE

# `é` is one byte in latin-1, two in UTF-8 and no ASCII, so a wrong guess of the encoding cannot go unseen
UNCALLED = """\
import torch


def train(model, optimizer, loader):  # é
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch).sum()
        loss.backward()
        optimizer.step  # é
"""
CALLED = UNCALLED.replace("optimizer.step ", "optimizer.step() ")


#: the exit code, what is printed and what is told
Outcome = tuple[int, bytes, bytes]
Check = Callable[..., Outcome]


@pytest.fixture
def check(project: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Check:
    """`gradlint check` in an empty folder, with bytes for its standard input, in this process."""

    def command(*arguments: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return (run(["check", *arguments]), *capsysbinary.readouterr())

    return command


def _crlf(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


def _mixed(text: str) -> bytes:
    """The first half as Windows has it, the second as Unix."""
    head, middle, tail = text.partition("    for")
    return _crlf(head) + (middle + tail).encode()


def _latin(text: str) -> bytes:
    return ("# -*- coding: latin-1 -*-\n" + text).encode("latin-1")


def _old_mac(text: str) -> bytes:
    return text.replace("\n", "\r").encode()


ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "plain": str.encode,
    "crlf": _crlf,
    "mixed newlines": _mixed,
    "old newlines": _old_mac,
    "byte order mark": lambda text: text.encode("utf-8-sig"),
    "byte order mark and crlf": lambda text: b"\xef\xbb\xbf" + _crlf(text),
    "latin-1": _latin,
    "no last newline": lambda text: text.rstrip("\n").encode(),
    "form feed": lambda text: text.replace("\n\n\n", "\n\x0c\n\n").encode(),
    "tabs": lambda text: text.replace("    ", "\t").encode(),
    "blank lines at the end": lambda text: (text + "\n\n").encode(),
    "exotic line separators": lambda text: text.replace("é", "\x0b \x85 \u2028 é").encode(),
}  # fmt: skip


#: the plain one, and the one with the most that could be lost, in the quick run
KINDS = [kind if kind in ("plain", "crlf") else pytest.param(kind, marks=pytest.mark.slow) for kind in ENCODINGS]


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_fixed_changes(check: Check, project: Path, kind: str) -> None:
    before, after = ENCODINGS[kind](UNCALLED), ENCODINGS[kind](CALLED)
    (project / "train.py").write_bytes(before)
    assert check("--fix") == (0, b"Found 1 error (1 fixed, 0 remaining)\n", b"")
    assert (project / "train.py").read_bytes() == after
    assert check("--fix", "-q", "-", stdin=before) == (0, after, b"")


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("kind", KINDS)
def test_the_diff_is_what_fix_would_do(check: Check, project: Path, kind: str) -> None:
    before, after = ENCODINGS[kind](UNCALLED), ENCODINGS[kind](CALLED)
    (project / "train.py").write_bytes(before)
    code, diff, told = check("--diff")
    assert (code, told) == (1, b"Would fix 1 finding in 1 file\n")
    assert (project / "train.py").read_bytes() == before
    command = ["git", "-c", "core.autocrlf=false", "apply", "-p0", "--whitespace=nowarn", "-"]
    subprocess.run(command, cwd=project, input=diff, check=True)
    assert (project / "train.py").read_bytes() == after


@pytest.mark.parametrize("kind", KINDS)
def test_the_edits_of_the_json_are_the_fix(check: Check, project: Path, kind: str) -> None:
    """An editor that applies them gets what `--fix` writes."""
    before, after = ENCODINGS[kind](UNCALLED), ENCODINGS[kind](CALLED)
    (project / "train.py").write_bytes(before)
    code, out, _ = check("--output-format", "json")
    assert code == 1
    (finding,) = json.loads(out)
    edits = []
    for edit in finding["fix"]["edits"]:
        start, end = (Position(edit[name]["row"], edit[name]["column"]) for name in ("location", "end_location"))
        edits.append(Edit(Span(start, end), edit["content"]))
    assert finding["fix"]["applicability"] == "safe"
    assert edited(before, edits) == after


def test_the_json_of_a_fix_has_the_shape_of_ruffs(check: Check, project: Path) -> None:
    (project / "train.py").write_text(UNCALLED, encoding="utf-8")
    (project / "other.py").write_text("import os\n")
    ruff = shutil.which("ruff", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    assert ruff, "ruff is not installed: pip install -e '.[dev]'"
    command = [ruff, "check", "--isolated", "--no-cache", "--select", "F401", "--output-format", "json", "other.py"]
    (theirs,) = json.loads(subprocess.run(command, cwd=project, capture_output=True, check=False).stdout)
    (ours,) = json.loads(check("--output-format", "json", "train.py")[1])
    assert _shape(theirs["fix"]) == _shape(ours["fix"])
    assert theirs.keys() <= ours.keys()


def _shape(value: object) -> object:
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    return [_shape(item) for item in value[:1]] if isinstance(value, list) else type(value)


def test_the_result_of_fixing_is_the_result_of_linting_what_was_fixed() -> None:
    """The cache keeps the one and gives it out as the other."""
    source = UNCALLED.encode() + b"        optimizer.step()  # gradlint: ignore[GL201]\n"
    fixed = fix(source, "train.py", Settings(), unsafe=False)
    assert fixed.applied
    assert fixed.result == lint(fixed.source, "train.py", Settings())


def test_nothing_is_remembered_wrongly(check: Check, project: Path) -> None:
    (project / "train.py").write_text(UNCALLED, encoding="utf-8")
    for arguments, code in (
        ((), 1), (("--diff",), 1), (("--fix", "--unfixable", "GL405"), 1), (("--fix",), 0), ((), 0), (("--diff",), 0),
    ):  # fmt: skip
        assert check(*arguments)[0] == code, arguments
    (project / "train.py").write_text(UNCALLED, encoding="utf-8")
    assert check()[0] == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a limit on the size of files")
def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """A real refusal by the system in the middle of the text, which even root gets."""
    text = UNCALLED.encode() + b"# padding\n" * 2000
    (tmp_path / "large.py").write_bytes(text)
    (tmp_path / "small.py").write_text(UNCALLED, encoding="utf-8")
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        "from gradlint.cli import main; main(['check', '--fix', '--no-cache', '-q'])"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, check=False, timeout=PATIENCE
    )
    assert outcome.returncode == 2
    assert outcome.stderr == b"gradlint: error: large.py: not fixed: File too large\n"
    assert (tmp_path / "large.py").read_bytes() == text
    assert (tmp_path / "small.py").read_text(encoding="utf-8") == CALLED
    assert sorted(os.listdir(tmp_path)) == ["large.py", "small.py"]


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
@pytest.mark.parametrize("options", [["--fix", "-"], ["--diff", "-"], ["-"]])
def test_an_output_that_takes_no_more_is_an_error(tmp_path: Path, options: list[str]) -> None:
    command = [sys.executable, "-m", "gradlint", "check", *options]
    with open("/dev/full", "wb") as full:
        outcome = subprocess.run(
            command,
            cwd=tmp_path,
            input=UNCALLED.encode(),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=PATIENCE,
        )
    assert outcome.returncode == 2
    assert outcome.stderr == b"Error: the output cannot be written: No space left on device\n"


@pytest.mark.skipif(os.name != "posix", reason="POSIX pipes")
def test_a_pipe_named_on_the_command_line_is_refused(tmp_path: Path) -> None:
    command = f"cat train.txt | {sys.executable} -m gradlint check --fix --no-cache /dev/stdin"
    (tmp_path / "train.txt").write_text(UNCALLED, encoding="utf-8")
    outcome = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert outcome.returncode == 2
    assert "/dev/stdin: not a regular file; `-` is the standard input" in outcome.stderr


@pytest.mark.slow
def test_many_files_in_processes(check: Check, project: Path) -> None:
    for number in range(40):
        (project / f"train_{number:02}.py").write_text(UNCALLED if number % 2 else CALLED, encoding="utf-8")
    assert check("--fix", "--jobs", "3") == (0, b"Found 20 errors (20 fixed, 0 remaining)\n", b"")
    assert {path.read_text(encoding="utf-8") for path in project.glob("*.py")} == {CALLED}


@pytest.mark.slow
def test_two_runs_at_once_leave_whole_files(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"train_{number}.py").write_text(UNCALLED, encoding="utf-8")
    command = [sys.executable, "-m", "gradlint", "check", "--fix", "-q"]
    running = [subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) for _ in range(3)]
    for process in running:
        _, err = process.communicate(timeout=PATIENCE)
        # who comes second may be told so, and nothing worse
        assert process.returncode in (0, 2), err
        assert all(b"changed by someone else" in line for line in err.splitlines())
    assert {path.read_text(encoding="utf-8") for path in tmp_path.glob("*.py")} == {CALLED}
    assert not list(tmp_path.glob(".gradlint-*"))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a terminal of our own")
def test_a_terminal_gets_a_painted_diff(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(UNCALLED, encoding="utf-8")
    ours, theirs = os.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "gradlint", "check", "--diff"],
        cwd=tmp_path, stdout=theirs, stderr=subprocess.DEVNULL, env={**environment, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:
        pass  # Linux says so when the other end is closed
    os.close(ours)
    assert process.wait(timeout=PATIENCE) == 1
    assert b"\x1b[32m+        optimizer.step()" in shown


@pytest.mark.slow
def test_what_is_fixed_still_parses(check: Check, project: Path) -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "train_with_mistakes.py"
    shutil.copy(example, project / "train.py")
    code, _, told = check("--fix", "--unsafe-fixes", "--isolated")
    assert code in (0, 1), told
    ast.parse((project / "train.py").read_bytes())


def test_a_fix_that_is_not_wanted_is_not_offered(check: Check, project: Path) -> None:
    (project / "train.py").write_text(UNCALLED, encoding="utf-8")
    code, out, _ = check("--unfixable", "method-not-called")
    assert code == 1
    assert b"[*]" not in out
    code, out, _ = check("--unfixable", "GL4", "--output-format", "json")
    assert code == 1
    assert json.loads(out)[0]["fix"] is None


@pytest.mark.slow
def test_a_run_that_fixes_counts_what_a_check_tells(check: Check, project: Path) -> None:
    """Findings that repeat each other are mended, too, and one fix may cure two; the numbers are those of the check."""
    loop = UNCALLED[UNCALLED.index("def train") :]
    twice = UNCALLED + "\n\n" + loop.replace("train", "finetune")
    example = Path(__file__).resolve().parents[2] / "examples" / "train_with_mistakes.py"
    for text in (UNCALLED, twice, example.read_text(encoding="utf-8")):
        (project / "train.py").write_text(text, encoding="utf-8")
        found = check("--no-cache")[1].decode().splitlines()[-2].partition(" (")[0]
        would = check("--no-cache", "--diff")[2].decode()
        fixed = check("--no-cache", "--fix")[1].decode().splitlines()
        told = next(line for line in fixed if line.startswith("Found "))
        assert told.partition(" (")[0] == found
        mended, remaining = (int(number) for number in re.findall(r"(\d+) (?:fixed|remaining)", told))
        assert mended + remaining == sum(map(int, re.findall(r"\d+", found)))
        assert would.startswith(f"Would fix {mended} finding")


def test_what_is_mended_is_what_was_told_and_is_gone() -> None:
    result = lint(UNCALLED.encode(), "a.py", Settings())
    (finding,) = result.findings
    other = replace(finding, code="GL101")
    assert mended((finding, finding, other), result) == (finding, other)
    assert mended((finding,), result) == ()
