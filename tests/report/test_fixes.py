"""The words about fixes, and diffs to the byte."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gradlint.model import Edit, FileResult, Finding, Fix, FixSafety, Position, Severity, Span
from gradlint.report.diff import painted, unified
from gradlint.report.document import Report
from gradlint.report.json import as_json
from gradlint.report.text import (
    Paint,
    concise,
    enumeration,
    frame,
    full,
    help_text,
    hint,
    hint_after,
    mark,
    summary,
    total,
)
from gradlint.runner.write import FixedFile

PLAIN, COLOUR = Paint(False), Paint(True)
HERE = Span(Position(1, 1), Position(1, 5))


def _finding(safety: FixSafety | None = None, code: str = "GL101", severity: Severity = Severity.ERROR) -> Finding:
    fix = None if safety is None else Fix(safety, "Move it", (Edit(HERE, "x"),))
    return Finding(code, "clip-after-step", severity, "message", HERE, fix=fix)


SAFE, UNSAFE, NONE = _finding(FixSafety.SAFE), _finding(FixSafety.UNSAFE), _finding()


@pytest.mark.parametrize(
    ("finding", "unsafe", "marked"),
    [
        (SAFE, False, "[*] "),
        (SAFE, True, "[*] "),
        (UNSAFE, False, ""),
        (UNSAFE, True, "[*] "),
        (NONE, True, ""),
        (SAFE, None, ""),
        (UNSAFE, None, ""),
    ],
)
def test_the_mark(finding: Finding, unsafe: bool | None, marked: str) -> None:
    assert mark(finding, unsafe, PLAIN) == marked


def test_the_mark_stands_behind_the_code() -> None:
    result = FileResult("a.py", (SAFE,))
    assert list(concise([result], PLAIN)) == ["a.py:1:1: GL101 [*] message"]
    assert next(iter(full([result], lambda path: None, PLAIN))) == "GL101 [*] clip-after-step error: message"


@pytest.mark.parametrize(
    ("finding", "text"), [(SAFE, "Move it"), (UNSAFE, "Move it (unsafe)"), (NONE, None)], ids=["safe", "unsafe", "none"]
)
def test_help(finding: Finding, text: str | None) -> None:
    assert help_text(finding) == text
    drawn = list(frame(finding, ["clip()"], PLAIN))
    assert drawn[:4] == ["  |", "1 | clip()", "  | ^^^^", "  |"]
    assert drawn[4:] == ([] if text is None else [f"  = help: {text}"])


def test_help_stands_under_the_bar_of_long_files() -> None:
    far = Span(Position(100, 1), Position(100, 5))
    finding = Finding("GL101", "clip-after-step", Severity.ERROR, "", far, fix=Fix(FixSafety.SAFE, "Move it", ()))
    drawn = list(frame(finding, ["clip()"] * 100, PLAIN))
    assert drawn[-2:] == ["    |", "    = help: Move it"]


@pytest.mark.parametrize(
    ("findings", "unsafe", "line"),
    [
        ((SAFE, SAFE, UNSAFE, NONE), False, "[*] 2 fixable with the --fix option (1 more with --unsafe-fixes)"),
        ((SAFE, UNSAFE, NONE), True, "[*] 2 fixable with the --fix option"),
        ((SAFE,), False, "[*] 1 fixable with the --fix option"),
        ((UNSAFE, UNSAFE), False, "2 fixable with --fix --unsafe-fixes"),
        ((NONE,), False, None),
        ((), True, None),
    ],
)
def test_hint(findings: tuple[Finding, ...], unsafe: bool, line: str | None) -> None:
    assert hint([FileResult("a.py", findings)], unsafe, PLAIN) == line


@pytest.mark.parametrize(
    ("findings", "unsafe", "line"),
    [
        ((UNSAFE, NONE), False, "1 more fixable with --unsafe-fixes"),
        ((UNSAFE,), True, None),
        ((SAFE, NONE), False, None),
    ],
)
def test_hint_after_fixing(findings: tuple[Finding, ...], unsafe: bool, line: str | None) -> None:
    assert hint_after([FileResult("a.py", findings)], unsafe) == line


def test_the_summary_counts_what_was_fixed() -> None:
    warning = _finding(severity=Severity.WARNING)
    line = summary([FileResult("a.py", (NONE, warning))], 2, PLAIN, [SAFE, SAFE, UNSAFE])
    assert line == "Found 4 errors, 1 warning (3 fixed, 2 remaining)"
    assert summary([FileResult("a.py")], 2, PLAIN, [SAFE]) == "Found 1 error (1 fixed, 0 remaining)"


def _file(before: bytes, after: bytes, *applied: Finding, path: str = "a.py") -> FixedFile:
    return FixedFile(path, before, after, applied)


def test_totals() -> None:
    left = [FileResult("a.py", (UNSAFE,))]
    two = [_file(b"a", b"b", SAFE, SAFE), _file(b"a", b"b", SAFE, path="b.py")]
    assert total(two, [], 2, False, "Would fix") == "Would fix 3 findings in 2 files"
    assert total(two[1:], left, 2, False, "Fixed") == "Fixed 1 finding in 1 file (1 more with --unsafe-fixes)"
    assert total([], [], 2, False, "Fixed") == "Nothing to fix (2 files checked)"
    assert total([], left, 2, False, "Fixed") == "Nothing to fix (1 more with --unsafe-fixes)"


def test_the_list_of_fixes_begins_with_the_most_frequent() -> None:
    often = _finding(code="GL405")
    assert list(enumeration([_file(b"a", b"b", SAFE, often, often)], PLAIN)) == [
        "Fixed 3 findings:",
        "- a.py:",
        "    2 × GL405 (clip-after-step)",
        "    1 × GL101 (clip-after-step)",
        "",
    ]
    assert list(enumeration([], PLAIN)) == []


def test_json_names_the_safety() -> None:
    (text,) = as_json(Report([FileResult("a.py", (SAFE, UNSAFE))], 1, lambda path: None))
    assert text.count('"applicability": "safe"') == 1
    assert text.count('"applicability": "unsafe"') == 1


SOURCES = [
    (b"a\nb\nc\n", b"a\nB\nc\n"),
    (b"a\r\nb\r\n", b"a\r\nB\r\n"),
    (b"a\nb", b"a\nB"),
    (b"a\nb", b"a\nb\n"),
    (b"a\nb\n", b"a\nb"),
    (b"a\rb\r", b"a\rB\r"),
    (b"a\r\nb\nc\rd\n", b"a\r\nB\nc\rd\n"),
    (b"a\n\x0c\nb\n", b"a\n\x0c\nB\n"),
    (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfB\n"),
    ("# coding: latin-1\nä\n".encode("latin-1"), "# coding: latin-1\nö\n".encode("latin-1")),
    (b"\n\n-- a\n++ b\n", b"\n\n-- B\n++ b\n"),
]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize(("before", "after"), SOURCES)
def test_git_can_apply_the_diff_to_the_byte(tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "a.py").write_bytes(before)
    patch = unified(_file(before, after))
    command = ["git", "-c", "core.autocrlf=false", "apply", "-p0", "--whitespace=nowarn", "-"]
    outcome = subprocess.run(command, cwd=tmp_path, input=patch, capture_output=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert (tmp_path / "a.py").read_bytes() == after


@pytest.mark.parametrize("tool", [["patch", "-p0", "--silent"], ["git", "apply", "-p0", "-"]])
def test_names_with_spaces_can_be_patched(tmp_path: Path, tool: list[str]) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"needs {tool[0]}")
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "my train.py").write_bytes(b"a\n")
    patch = unified(_file(b"a\n", b"b\n", path="a b/my train.py"))
    outcome = subprocess.run(tool, cwd=tmp_path, input=patch, capture_output=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert (tmp_path / "a b" / "my train.py").read_bytes() == b"b\n"
    assert next(painted(_file(b"a\n", b"b\n", path="a b.py"), Paint(False))) == "--- a b.py"


def test_the_lack_of_a_last_newline_is_told() -> None:
    assert unified(_file(b"a", b"b")) == (
        b"--- a.py\n+++ a.py\n@@ -1 +1 @@\n"
        b"-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"
    )  # fmt: skip


def test_what_came_through_stdin_has_no_head() -> None:
    assert unified(_file(b"a\n", b"b\n", path="-")) == b"@@ -1 +1 @@\n-a\n+b\n"
    assert list(painted(_file(b"a\n", b"b\n", path="-"), COLOUR))[1] == "\x1b[31m-a\x1b[0m"


def test_a_painted_diff_is_harmless_and_decoded() -> None:
    before = "# coding: latin-1\nä = 1  # \x1b[2J\n-- x\r\n".encode("latin-1")
    lines = list(painted(_file(before, before.replace(b"1", b"2")), COLOUR))
    assert lines[:3] == ["\x1b[1m--- a.py\x1b[0m", "\x1b[1m+++ a.py\x1b[0m", "\x1b[36m@@ -1,3 +1,3 @@\x1b[0m"]
    assert "\x1b[31m-ä = 1  # \N{REPLACEMENT CHARACTER}[2J\x1b[0m" in lines
    assert lines[-1] == " -- x"
