"""Diagnostics as the language server protocol wants them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradlint.model import FileResult, Position, Severity, Span, split_lines
from gradlint.registry import rule_url
from gradlint.report.document import Report
from gradlint.report.lsp import as_lsp, diagnostic, utf16
from tests.report.samples import ODD_PATHS, TRAIN, finding, notebook, one_file, report, span_of, train_finding


def _published(given_report: Report) -> list[dict[str, Any]]:
    return [json.loads(line) for line in as_lsp(given_report)]


def _at(text: str, found: dict[str, Any]) -> str:
    """The text of a range, as an editor cuts it out."""
    lines = [line.encode("utf-16-le") for line in split_lines(text)]
    start, end = found["start"], found["end"]
    cut = lines[start["line"] : end["line"] + 1]
    cut[-1] = cut[-1][: 2 * end["character"]]
    cut[0] = cut[0][2 * start["character"] :]
    return "\n".join(line.decode("utf-16-le") for line in cut)


def test_a_diagnostic() -> None:
    ((made,),) = [published["diagnostics"] for published in _published(one_file())]
    assert _at(TRAIN, made["range"]) == "clip(\n        a,\n    )"
    assert made["range"]["start"] == {"line": 2, "character": 16}
    assert (made["severity"], made["code"], made["source"]) == (1, "GL101", "gradlint")
    assert made["codeDescription"] == {"href": rule_url("GL101")}
    assert made["message"] == "`clip()` runs after `step()`"
    (story,) = made["relatedInformation"]
    assert (_at(TRAIN, story["location"]["range"]), story["message"]) == ("step()", "used here")
    assert (made["data"]["code"], made["data"]["name"]) == ("GL101", "clip-after-step")
    fix = made["data"]["fix"]
    assert (fix["message"], fix["safety"]) == ("Move the clip", "safe")
    assert [(_at(TRAIN, edit["range"]), edit["newText"]) for edit in fix["edits"]] == [
        ("", "clip(a); "),
        ("clip(\n        a,\n    )", "pass"),
    ]


def test_a_line_for_each_file_with_findings() -> None:
    results = [
        FileResult("a.py", (train_finding(), train_finding())),
        FileResult("b.py"),
        FileResult("c.py", (train_finding(),)),
    ]
    published = _published(report(results, {"a.py": TRAIN, "c.py": TRAIN}))
    assert [len(one["diagnostics"]) for one in published] == [2, 1]
    assert [one["uri"].rpartition("/")[2] for one in published] == ["a.py", "c.py"]
    assert _published(report([FileResult("b.py")])) == []


@pytest.mark.parametrize(("severity", "number"), [(Severity.ERROR, 1), (Severity.WARNING, 2), (Severity.ADVICE, 3)])
def test_severities(severity: Severity, number: int) -> None:
    result = FileResult("a.py", (finding(span_of("x", "x"), severity=severity),))
    made = diagnostic(result.findings[0], result, ["x"], "file:///a.py")
    assert made["severity"] == number
    assert "relatedInformation" not in made


@pytest.mark.parametrize("path", ODD_PATHS)
def test_addresses(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (published,) = _published(one_file(path))
    parts = urlsplit(published["uri"])
    assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("file", "", "", "")
    assert unquote(parts.path) == (tmp_path / path).as_posix()


def test_stdin_has_an_address_of_its_own() -> None:
    assert _published(one_file("-"))[0]["uri"] == "untitled:stdin"


def test_cells_are_documents() -> None:
    (published,) = _published(notebook())
    assert published["uri"].endswith("/nb.ipynb#cell=4")
    (made,) = published["diagnostics"]
    assert made["range"] == {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 6}}
    (story,) = made["relatedInformation"]
    assert story["location"]["uri"].endswith("/nb.ipynb#cell=2")
    assert story["location"]["range"]["start"] == {"line": 2, "character": 0}
    first, second = made["data"]["fix"]["edits"]
    assert first == {
        "uri": story["location"]["uri"],
        "range": {"start": {"line": 2, "character": 0}, "end": {"line": 2, "character": 0}},
        "newText": "clip()\n",
    }
    # the last line of a cell has no end: it goes with that of the line above
    assert second == {
        "uri": published["uri"],
        "range": {"start": {"line": 0, "character": 5}, "end": {"line": 1, "character": 6}},
        "newText": "",
    }


def test_an_editor_names_its_cells_and_units() -> None:
    given_report = notebook()
    result = given_report.results[0]
    lines = ["import torch", "", "step()", "x = 1", "clip()"]
    made: Any = diagnostic(
        result.findings[0], result, lines, "nb:", {2: "nb:two", 4: "nb:four"}, width=lambda line, count: 10 * count
    )
    assert made["range"]["end"] == {"line": 1, "character": 60}
    assert made["relatedInformation"][0]["location"]["uri"] == "nb:two"


def test_a_text_that_is_gone_costs_only_the_columns() -> None:
    ((made,),) = [
        published["diagnostics"] for published in _published(report([FileResult("a.py", (train_finding(),))]))
    ]
    assert made["range"]["start"] == {"line": 2, "character": 0}


@given(st.text(alphabet=st.characters(exclude_characters="\r\n")), st.data())
def test_ranges_cut_out_what_columns_mean(line: str, data: st.DataObject) -> None:
    line = line.encode("utf-8", "replace").decode()
    start = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(start, len(line)))
    first, last = ({"line": 0, "character": utf16(line, column)} for column in (start, end))
    assert _at(line, {"start": first, "end": last}) == line[start:end]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_newlines(newline: str) -> None:
    text = f"a{newline}\N{GRINNING FACE}b{newline}"
    result = FileResult("a.py", (finding(Span(Position(2, 2), Position(2, 3))),))
    ((made,),) = [published["diagnostics"] for published in _published(report([result], {"a.py": text}))]
    assert _at(text, made["range"]) == "b"
