"""The code frame and the formats, character by character."""

from __future__ import annotations

import io

import pytest

from gradlint.cli.output import Progress
from gradlint.config import Settings
from gradlint.documents import program_text
from gradlint.model import FileResult, Finding, Position, Related, RuleCrash, Severity, Span, split_lines
from gradlint.report.text import (
    Paint,
    concise,
    frame,
    full,
    grouped,
    statistics,
    statistics_lines,
    summary,
    wants_colour,
)
from gradlint.runner.files import UNKNOWN, SourceFile
from tests.report.samples import one_file

PLAIN = Paint(False)
_FILE = SourceFile("a.py", "/a.py", UNKNOWN, Settings(), False)


def _span(row: int, column: int, end: int, end_row: int | None = None) -> Span:
    return Span(Position(row, column), Position(end_row or row, end))


def _finding(span: Span, *related: tuple[Span, str], severity: Severity = Severity.ERROR) -> Finding:
    story = tuple(Related(place, text) for place, text in related)
    return Finding("GL101", "clip-after-step", severity, "message", span, story)


def _frame(text: str, finding: Finding) -> str:
    return "\n".join(frame(finding, split_lines(text), PLAIN))


def test_the_story_is_told_in_the_order_of_the_file() -> None:
    text = "a()\nstep()\nclip()\nb()\nc()"
    drawn = _frame(text, _finding(_span(3, 1, 7), (_span(2, 1, 7), "used here")))
    assert (
        drawn
        == """\
  |
2 | step()
  | ------ used here
3 | clip()
  | ^^^^^^
4 | b()
  |"""
    )


def test_a_distant_place_is_elided_and_a_single_line_is_not() -> None:
    text = "\n".join(f"line{number}" for number in range(1, 13))
    drawn = _frame(text, _finding(_span(9, 1, 6), (_span(2, 1, 6), "far"), (_span(12, 1, 7), "below")))
    assert (
        drawn
        == """\
   |
 2 | line2
   | ----- far
...
 8 | line8
 9 | line9
   | ^^^^^
10 | line10
11 | line11
12 | line12
   | ------ below
   |"""
    )


def test_several_marks_on_one_line() -> None:
    drawn = _frame("f(a, b)", _finding(_span(1, 1, 8), (_span(1, 6, 7), "second"), (_span(1, 3, 4), "first")))
    assert (
        drawn
        == """\
  |
1 | f(a, b)
  | ^^^^^^^
  |   - first
  |      - second
  |"""
    )


def test_a_call_over_several_lines_is_marked_on_its_first() -> None:
    drawn = _frame("clip(  \n    x,\n)\n", _finding(_span(1, 1, 2, end_row=3)))
    assert drawn == "  |\n1 | clip(\n  | ^^^^^\n2 |     x,\n  |"


@pytest.mark.parametrize(
    ("line", "span", "carets"),
    [
        ("\tclip()", (2, 8), "    ^^^^^^"),
        ("损失 = clip()", (6, 12), "       ^^^^^^"),
        ("'损失'.clip()", (2, 4), " ^^^^"),
        ("e\u0301 = clip()", (6, 12), "    ^^^^^^"),
        ("x\x0cclip()", (3, 9), "  ^^^^^^"),
        ("clip()", (7, 7), "      ^"),
        ("clip()", (50, 60), "      ^"),
    ],
)
def test_carets_stand_under_what_is_seen(line: str, span: tuple[int, int], carets: str) -> None:
    drawn = _frame(line, _finding(_span(1, *span))).splitlines()
    assert drawn[2] == f"  | {carets}"


def test_escape_codes_in_the_source_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in _frame("x = 1  # \x1b[31m red", _finding(_span(1, 1, 2)))


def test_a_very_long_line_is_cut_round_the_finding() -> None:
    line = "x = 1; " * 5000 + "clip()" + "; y = 2" * 5000
    at = line.index("clip") + 1
    drawn = _frame(line, _finding(_span(1, at, at + 6))).splitlines()
    assert len(drawn[1]) < 160
    assert drawn[1][drawn[2].index("^") :].startswith("clip()")


def test_a_finding_beyond_the_end_has_no_frame() -> None:
    assert _frame("x = 1", _finding(_span(99, 1, 2))) == ""


def test_the_source_may_be_gone() -> None:
    lines = list(full([FileResult("train.py", (_finding(_span(3, 1, 2)),))], lambda path: None, PLAIN))
    assert lines == ["GL101 clip-after-step error: message", "  --> train.py:3:1", ""]


def test_findings_are_ordered_by_place_and_code() -> None:
    findings = (_finding(_span(3, 1, 2)), _finding(_span(1, 5, 6)), _finding(_span(1, 1, 2)))
    lines = list(concise([FileResult("a.py", findings)], PLAIN))
    assert [line.split(" ")[0] for line in lines] == ["a.py:1:1:", "a.py:1:5:", "a.py:3:1:"]


@pytest.mark.parametrize(
    ("severities", "checked", "line"),
    [
        ([], 1, "All checks passed! (1 file checked)"),
        ([Severity.ERROR], 2, "Found 1 error (2 files checked)"),
        (
            [Severity.ADVICE, Severity.WARNING, Severity.ERROR, Severity.ERROR],
            3,
            "Found 2 errors, 1 warning, 1 piece of advice (3 files checked)",
        ),
    ],
)
def test_summary(severities: list[Severity], checked: int, line: str) -> None:
    findings = tuple(_finding(_span(1, 1, 2), severity=severity) for severity in severities)
    assert summary([FileResult("a.py", findings)], checked, PLAIN) == line


def test_a_run_that_failed_somewhere_does_not_say_that_all_passed() -> None:
    failed = FileResult("b.py", crashes=(RuleCrash("GL101", "KeyError: 'x'", ""),))
    assert summary([FileResult("a.py"), failed], 2, PLAIN) == "Not all checks could be made (2 files checked)"


def test_statistics_begin_with_the_most_frequent() -> None:
    often = Finding("GL401", "missing-zero-grad", Severity.ERROR, "", _span(1, 1, 2))
    guessed = often.with_severity(Severity.WARNING)
    given = [FileResult("a.py", (_finding(_span(1, 1, 2)), often, guessed))]
    assert statistics(given, False) == [
        (2, "GL401", "missing-zero-grad", ((Severity.ERROR, 1), (Severity.WARNING, 1)), 0),
        (1, "GL101", "clip-after-step", ((Severity.ERROR, 1),), 0),
    ]
    assert list(statistics_lines(given, PLAIN, False)) == [
        "2  GL401  error, warning  missing-zero-grad",
        "1  GL101  error           clip-after-step",
    ]


def test_grouped_tells_the_name_of_a_file_once() -> None:
    given = FileResult("a\n.py", (_finding(_span(12, 5, 7)), _finding(_span(3, 1, 2))))
    lines = list(grouped([FileResult("clean.py"), given], PLAIN))
    assert lines[0] == "a\\n.py:"
    assert [line.split()[0] for line in lines[1:-1]] == ["3:1", "12:5"]
    assert lines[1].index("GL101") == lines[2].index("GL101")
    assert lines[-1] == ""


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (b"x = 1", "x = 1"),
        (b"\xef\xbb\xbfx = 1", "x = 1"),
        ("# -*- coding: latin-1 -*-\nä".encode("latin-1"), "# -*- coding: latin-1 -*-\nä"),
        (b"# coding: nonsense\nx", "# coding: nonsense\nx"),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_sources_are_decoded_as_python_does(source: bytes, text: str) -> None:
    assert program_text(source, "a.py") == text


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("terminal", "environment", "colour"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "0"}, False),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colours(terminal: bool, environment: dict[str, str], colour: bool) -> None:
    assert wants_colour(_Terminal() if terminal else io.StringIO(), environment) is colour


def test_progress_is_told_in_long_runs_on_terminals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(enabled: bool, total: int) -> str:
        with Progress(enabled=enabled) as progress:
            assert len(list(progress.found([_FILE] * total))) == total
            progress(0, total)
            progress(total, total)
        return capsys.readouterr().err

    monkeypatch.setattr("gradlint.cli.output._PATIENCE", 1e9)
    assert told(True, 60) == ""
    assert told(False, 60) == ""
    many = told(True, 5000)  # at once: that is going to take long
    assert "\rFinding files: 2,000, 0 s" in many
    assert "Checking: 0 of 5,000 files, " in many
    assert many.endswith(" \r")  # and nothing of it is left
    monkeypatch.setattr("gradlint.cli.output._PATIENCE", -1.0)
    assert "Finding files: 50" in told(True, 60)
    assert told(False, 60) == ""


def test_escape_codes_in_names_of_files_do_not_reach_the_terminal() -> None:
    given = one_file("a\n\x1b[31mé b.py")
    (line,) = concise(given.results, Paint(False))
    assert line.startswith("a\\n\\x1b[31mé b.py:")
    assert not any("\x1b" in line or "\n" in line for line in full(given.results, given.read, Paint(False)))
