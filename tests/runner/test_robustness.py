"""Files as they come: broken, binary, huge, oddly encoded. A clear line each, and the run goes on."""

from __future__ import annotations

import codecs
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradlint.config.load import ConfigTree
from gradlint.model import FileResult
from gradlint.python.source import parses
from gradlint.runner import run as run_module
from gradlint.runner.files import FileFinder, MissingPathError
from gradlint.runner.run import run
from tests.patience import PATIENCE
from tests.sources import BROKEN, CLIP_AFTER_STEP, NO_GRADIENTS


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _lint_one(name: str) -> FileResult:
    (result,) = run(FileFinder(ConfigTree()).find([name]), cache=None, jobs=1).results
    return result


def _places(result: FileResult) -> list[str]:
    assert result.crashes == ()
    return [f"{finding.code}:{finding.span.start.row}" for finding in result.findings]


LATIN = "# -*- coding: latin-1 -*-\n" + CLIP_AFTER_STEP.replace("import torch", "import torch  # Größe", 1)


@pytest.mark.parametrize(
    ("source", "places"),
    [
        (CLIP_AFTER_STEP.encode(), ["GL101:10"]),
        (codecs.BOM_UTF8 + CLIP_AFTER_STEP.encode(), ["GL101:10"]),
        (CLIP_AFTER_STEP.replace("\n", "\r\n").encode(), ["GL101:10"]),
        (CLIP_AFTER_STEP.replace("\n\n\n", "\n\x0c\n\n").encode(), ["GL101:10"]),
        (CLIP_AFTER_STEP.replace("    ", "\t").encode(), ["GL101:10"]),
        (CLIP_AFTER_STEP.rstrip("\n").encode(), ["GL101:10"]),
        (LATIN.encode("latin-1"), ["GL101:11"]),
        (CLIP_AFTER_STEP.replace("batch", "größe").encode(), ["GL101:10"]),
        (b"", []),
        (b"\n\n", []),
        (codecs.BOM_UTF8, []),
        (BROKEN.encode(), ["GL900:1"]),
    ],
    ids=["plain", "bom", "crlf", "form feed", "tabs", "no last newline", "latin-1", "utf-8", "empty", "blank",
         "only a bom", "broken"],
)  # fmt: skip
def test_encodings_and_newlines(tmp_path: Path, source: bytes, places: list[str]) -> None:
    (tmp_path / "train.py").write_bytes(source)
    assert _places(_lint_one("train.py")) == places


@pytest.mark.parametrize(
    "source",
    [
        b"\x7fELF\x00\x01\x02" * 100,
        b"\xff\xfe" + CLIP_AFTER_STEP.encode("utf-16-le"),
        b"optimizer.step() loss.backward() \xff\xff\xff",
        b"# coding: nonsense\noptimizer.step(); loss.backward()\n",
        b"loss.backward()\noptimizer.step()\x00\n",
    ],
    ids=["binary", "utf-16", "wrong bytes", "unknown encoding", "null byte"],
)
def test_what_cannot_be_read_is_told_without_a_crash(tmp_path: Path, source: bytes) -> None:
    (tmp_path / "train.py").write_bytes(source)
    result = _lint_one("train.py")
    assert result.crashes == ()
    assert result.unreadable is not None or [finding.code for finding in result.findings] == ["GL900"]


def test_a_vanished_file_is_told_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "gone.py").write_text(NO_GRADIENTS)
    (tmp_path / "train.py").write_text(CLIP_AFTER_STEP)
    files = list(FileFinder(ConfigTree()).find(["."]))
    (tmp_path / "gone.py").unlink()
    gone, train = run(files, cache=None, jobs=1).results
    assert gone.unreadable is not None
    assert gone.unreadable.reason == "No such file or directory"
    assert _places(train) == ["GL101:10"]


def test_an_unreadable_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(CLIP_AFTER_STEP)

    def refused(path: str) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(run_module, "read_bytes", refused)
    result = _lint_one("train.py")
    assert result.unreadable is not None
    assert result.unreadable.reason == "Permission denied"


def test_broken_files_are_found_in_small_runs_and_where_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "plain.py").write_text(NO_GRADIENTS)

    def codes(*paths: str) -> list[str]:
        results = run(FileFinder(ConfigTree()).find(paths), cache=None, jobs=1).results
        return [finding.code for result in results for finding in result.findings]

    assert codes(".") == ["GL900"]
    monkeypatch.setattr(run_module, "SYNTAX_CHECKED_FILES", 1)
    assert codes(".") == []
    assert codes("broken.py", ".") == ["GL900"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    ["x = " + "(" * 5000 + ")" * 5000, "x = " + "-" * 50_000 + "1", "x = [" + "[" * 300 + "]" * 301],
    ids=["parentheses", "signs", "lists"],
)
def test_deep_nesting_is_survived(tmp_path: Path, source: str) -> None:
    """In a process of its own: a parser that overflows its stack takes the whole process with it."""
    (tmp_path / "deep.py").write_text(source + "\n" + CLIP_AFTER_STEP)
    command = [sys.executable, "-m", "gradlint", "check", "--no-cache", "--isolated", "deep.py"]
    outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert outcome.returncode in (0, 1), outcome.stderr
    assert "Traceback" not in outcome.stderr


@pytest.mark.slow
def test_a_huge_generated_file_is_linted(tmp_path: Path) -> None:
    weights = "1f" * 150
    table = "".join(f"VALUE_{number} = [{number}, {number + 1}, '{weights}']\n" for number in range(3_100))
    assert len(table) > 1_000_000
    (tmp_path / "huge.py").write_text(table + CLIP_AFTER_STEP)
    assert _places(_lint_one("huge.py")) == ["GL101:3110"]


def test_warnings_of_the_compiler_stay_silent(recwarn: pytest.WarningsRecorder) -> None:
    assert parses(b"x = '\\d'\n")
    assert not parses(b"x = (\n")
    assert not parses(b"\x00")
    assert len(recwarn) == 0


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_a_pipe_of_the_shell_is_refused_even_if_it_has_an_end() -> None:
    read, write = os.pipe()
    try:
        os.write(write, CLIP_AFTER_STEP.encode())
        os.close(write)
        with pytest.raises(MissingPathError, match="not a regular file"):
            _lint_one(f"/dev/fd/{read}")
    finally:
        os.close(read)
