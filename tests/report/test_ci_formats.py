"""The formats of CI systems: workflow commands, Code Quality, JUnit."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradlint.model import Edit, FileResult, Fix, FixSafety, Position, Severity, Span
from gradlint.report.document import Report
from gradlint.report.github import as_github
from gradlint.report.gitlab import as_gitlab
from gradlint.report.junit import as_junit
from gradlint.report.paths import writable
from gradlint.report.pylint import as_pylint
from gradlint.report.rdjson import as_rdjson
from tests.report.samples import ANY_PATH, ODD_PATHS, TRAIN, finding, notebook, one_file, report, span_of, troubled

HERE = Span(Position(1, 1), Position(1, 2))


def _command(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command, read as GitHub's runner does."""
    found = re.fullmatch(r"::(\w+) (.*?)::(.*)", line)
    assert found, line
    name, properties, data = found.groups()
    pairs = dict(pair.split("=", 1) for pair in properties.split(","))
    told = {key: _unescaped(_property(value)) for key, value in pairs.items()}
    return name, told, _unescaped(data)


def _property(text: str) -> str:
    return text.replace("%3A", ":").replace("%2C", ",")


def _unescaped(text: str) -> str:
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def test_an_annotation() -> None:
    made = finding(span_of(TRAIN, "step()"))
    (line,) = as_github(report([FileResult("train.py", (made,))], {"train.py": TRAIN}))
    where = "file=train.py,line=2,endLine=2,col=15,endColumn=21"
    assert line == f"::error {where},title=gradlint GL101 clip-after-step::GL101 `clip()` runs after `step()`"


def test_a_range_over_lines_has_no_columns() -> None:
    ((name, properties, told),) = map(_command, as_github(one_file()))
    assert name == "error"
    assert properties == {"file": "train.py", "line": "3", "endLine": "5", "title": "gradlint GL101 clip-after-step"}
    assert told.splitlines()[1:] == ["  line 2: used here", "  help: Move the clip"]


@pytest.mark.parametrize(
    ("severity", "name"), [(Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.ADVICE, "notice")]
)
def test_severities_of_annotations(severity: Severity, name: str) -> None:
    (line,) = as_github(report([FileResult("a.py", (finding(HERE, severity=severity),))]))
    assert _command(line)[0] == name


@pytest.mark.parametrize("path", ODD_PATHS)
def test_annotations_name_the_file_from_the_workspace(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    ((_, properties, _),) = map(_command, as_github(one_file(path)))
    assert properties["file"] == f"below/{path}"


@given(message=st.text(), path=ANY_PATH)
def test_any_annotation_is_one_line_that_reads_back(message: str, path: str) -> None:
    (line,) = as_github(report([FileResult(f"/{path}", (finding(HERE, message=message),))]))
    assert "\n" not in line
    assert "\r" not in line
    _, properties, told = _command(line)
    assert told == f"GL101 {message}"
    assert properties["file"] == writable(os.path.abspath(f"/{path}"))


def test_annotations_of_a_notebook_stand_at_the_line_of_its_json() -> None:
    given_report = notebook()
    ((_, properties, message),) = map(_command, as_github(given_report))
    source = (given_report.read("nb.ipynb") or b"").decode().split("\n")
    assert source[int(properties["line"]) - 1].strip() == '"clip()"'
    assert properties["endLine"] == properties["line"]
    assert "col" not in properties
    assert message.splitlines() == [
        "cell 4, line 2: GL101 `clip()` runs after `step()`",
        "  cell 2, line 3: used here",
        "  help: Move the clip (unsafe)",
    ]


def test_pylint() -> None:
    assert list(as_pylint(one_file("a b.py"))) == ["a b.py:3: [GL101] `clip()` runs after `step()`"]
    (line,) = as_pylint(notebook())
    assert re.fullmatch(r"nb\.ipynb:\d+: \[GL101\] cell 4, line 2: `clip\(\)` runs after `step\(\)`", line)
    assert list(as_pylint(report([FileResult("a.py")]))) == []


def _rdjson(given_report: Report) -> dict[str, Any]:
    (text,) = as_rdjson(given_report)
    return dict(json.loads(text))


def test_rdjson_counts_bytes() -> None:
    made = finding(span_of(TRAIN, "step()"), fix=Fix(FixSafety.SAFE, "Call it", (Edit(span_of(TRAIN, "step"), "go"),)))
    told = _rdjson(report([FileResult("train.py", (made,))], {"train.py": TRAIN}))
    assert told["source"]["name"] == "gradlint"
    (row,) = told["diagnostics"]
    # the face has four bytes and é two, where both are one character
    before = len("    x = '\N{GRINNING FACE}é'; ".encode())
    start, end = {"line": 2, "column": before + 1}, {"line": 2, "column": before + 7}
    assert row["location"] == {"path": "train.py", "range": {"start": start, "end": end}}
    assert (row["severity"], row["code"]["value"]) == ("ERROR", "GL101")
    assert row["suggestions"] == [
        {"range": {"start": start, "end": {"line": 2, "column": before + 5}}, "text": "go"},
    ]


def test_rdjson_tells_the_story_and_no_half_of_a_fix() -> None:
    (row,) = _rdjson(one_file())["diagnostics"]
    assert row["message"] == "`clip()` runs after `step()` (line 2: used here)"
    assert "suggestions" not in row  # it has two edits
    (row,) = _rdjson(notebook())["diagnostics"]
    assert row["message"] == "cell 4, line 2: `clip()` runs after `step()` (cell 2, line 3: used here)"
    assert list(row["location"]["range"]["start"]) == ["line"]
    assert _rdjson(report([FileResult("a.py")]))["diagnostics"] == []


def _gitlab(given_report: Report) -> list[dict[str, Any]]:
    (text,) = as_gitlab(given_report)
    return list(json.loads(text))


def test_code_quality() -> None:
    (row,) = _gitlab(one_file())
    assert re.fullmatch("[0-9a-f]{64}", row.pop("fingerprint"))
    assert row == {
        "description": "GL101 clip-after-step: `clip()` runs after `step()`",
        "check_name": "GL101",
        "severity": "critical",
        "location": {
            "path": "train.py",
            "positions": {"begin": {"line": 3, "column": 15}, "end": {"line": 5, "column": 6}},
        },
    }


def test_code_quality_of_clean_code_is_an_empty_list() -> None:
    assert _gitlab(report([FileResult("a.py")])) == []


def test_code_quality_of_a_notebook() -> None:
    given_report = notebook()
    (row,) = _gitlab(given_report)
    source = (given_report.read("nb.ipynb") or b"").decode().split("\n")
    assert source[row["location"]["lines"]["begin"] - 1].strip() == '"clip()"'
    assert "positions" not in row["location"]
    assert row["description"] == "GL101 clip-after-step: cell 4, line 2: `clip()` runs after `step()`"


def test_severities_of_code_quality() -> None:
    findings = tuple(finding(HERE, severity=severity) for severity in sorted(Severity))
    told = {row["severity"] for row in _gitlab(report([FileResult("a.py", findings)]))}
    assert told == {"info", "major", "critical"}


def test_fingerprints_are_distinct_and_stay_when_lines_move() -> None:
    twice = TRAIN + TRAIN.replace("train", "again")
    findings = tuple(finding(Span(Position(row, 5), Position(row, 6))) for row in (2, 2, 3, 7, 8))
    results = [FileResult(path, findings) for path in ("a.py", "b.py")]
    before = _gitlab(report(results, {"a.py": twice, "b.py": twice}))
    assert len({row["fingerprint"] for row in before}) == len(before) == 10
    moved = tuple(finding(Span(Position(row + 2, 5), Position(row + 2, 6))) for row in (2, 2, 3, 7, 8))
    after = _gitlab(report([FileResult("a.py", moved), results[1]], {"a.py": f"\n\n{twice}", "b.py": twice}))
    assert [row["fingerprint"] for row in after] == [row["fingerprint"] for row in before]


def test_paths_are_those_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    monkeypatch.setenv("CI_PROJECT_DIR", str(tmp_path))
    (row,) = _gitlab(one_file("a b.py"))
    assert row["location"]["path"] == "src/a b.py"


def _suites(given_report: Report) -> ElementTree.Element:
    return ElementTree.fromstring("\n".join(as_junit(given_report)).encode("utf-8", "backslashreplace"))


def _counts(element: ElementTree.Element) -> tuple[str | None, ...]:
    return tuple(element.get(name) for name in ("tests", "failures", "errors"))


def test_junit() -> None:
    root = _suites(one_file())
    (suite,) = root
    (case,) = suite
    (failure,) = case
    assert (root.tag, root.get("name"), _counts(root)) == ("testsuites", "gradlint", ("1", "1", "0"))
    assert (suite.tag, suite.get("name"), _counts(suite)) == ("testsuite", "train.py", ("1", "1", "0"))
    assert case.attrib == {"name": "org.gradlint.GL101", "classname": "train", "line": "3", "column": "15"}
    assert failure.attrib == {"message": "`clip()` runs after `step()`", "type": "clip-after-step"}
    assert (failure.text or "").split("\n") == [
        "",
        "line 3, col 15, error: `clip()` runs after `step()`",
        "line 2, col 15: used here",
        "help: Move the clip",
    ]


def test_junit_of_clean_code_is_one_passed_case() -> None:
    root = _suites(report([FileResult("a.py")]))
    assert _counts(root) == ("1", "0", "0")
    ((case,),) = root
    assert (case.tag, list(case)) == ("testcase", [])


def test_junit_has_an_error_for_each_file_that_could_not_be_checked() -> None:
    root = _suites(troubled())
    assert _counts(root) == ("2", "0", "2")
    assert [error.get("message") for error in root.iter("error")] == [
        "it is a binary file",
        "internal error in rule GL101: KeyError: 'x'",
    ]


def test_junit_of_a_notebook_names_the_cell() -> None:
    (failure,) = _suites(notebook()).iter("failure")
    assert (failure.text or "").split("\n")[1:3] == [
        "cell 4, line 2, col 1, error: `clip()` runs after `step()`",
        "cell 2, line 3, col 1: used here",
    ]


@pytest.mark.parametrize("path", ODD_PATHS)
def test_junit_of_odd_paths(path: str) -> None:
    (suite,) = _suites(one_file(path))
    assert suite.get("name") == path


@given(message=st.text(), path=ANY_PATH)
def test_junit_is_well_formed_whatever_it_tells(message: str, path: str) -> None:
    root = _suites(report([FileResult(path, (finding(HERE, message=message),))]))
    (failure,) = root.iter("failure")
    kept = "".join(char for char in message if char.isprintable() and char.isascii())
    told = failure.get("message") or ""
    assert "".join(char for char in told if char.isprintable() and char.isascii()) == kept
