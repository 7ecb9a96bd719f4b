"""Notebooks in the formats for people, in JSON and as diffs: told by cell."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gradlint.registry import rule_url
from gradlint.report.diff import painted, unified
from gradlint.report.document import json_rows
from gradlint.report.json import as_json, as_jsonl
from gradlint.report.text import Paint, concise, full
from gradlint.runner.write import FixedFile
from tests.report.samples import CELLS, notebook, notebook_source, one_file, report

PLAIN = Paint(False)


def test_the_place_names_the_cell() -> None:
    assert list(concise(notebook().results, PLAIN)) == ["nb.ipynb:cell 4:2:1: GL101 `clip()` runs after `step()`"]


def test_a_story_over_cells() -> None:
    given = notebook()
    assert list(full(given.results, given.read, PLAIN)) == [
        "GL101 clip-after-step error: `clip()` runs after `step()`",
        "  --> nb.ipynb:cell 4:2:1",
        "  |",
        "  ::: cell 2",
        "3 | step()",
        "  | ------ used here",
        "  ::: cell 4",
        "1 | x = 1",
        "2 | clip()",
        "  | ^^^^^^",
        "  |",
        "  = help: Move the clip (unsafe)",
        "",
    ]


def test_json_has_rows_of_cells() -> None:
    (text,) = as_json(notebook())
    ((row,),) = [json.loads(text)]
    assert (row["cell"], row["location"], row["noqa_row"]) == (4, {"row": 2, "column": 1}, 2)
    assert row["end_location"] == {"row": 2, "column": 7}
    (story,) = row["related"]
    assert (story["cell"], story["location"]) == (2, {"row": 3, "column": 1})
    first, second = row["fix"]["edits"]
    assert (first["cell"], first["location"], first["content"]) == (2, {"row": 3, "column": 1}, "clip()\n")
    assert (second["cell"], second["location"], second["end_location"]) == (
        4,
        {"row": 1, "column": 6},
        {"row": 2, "column": 7},
    )


def test_json_of_a_notebook_that_is_gone_keeps_the_cells() -> None:
    (text,) = as_json(report(list(notebook().results)))
    ((row,),) = [json.loads(text)]
    assert [(edit["cell"], edit["location"]) for edit in row["fix"]["edits"]] == [
        (2, {"row": 3, "column": 1}),
        (4, {"row": 2, "column": 1}),
    ]


def test_json_of_a_file_has_no_cells_and_an_address() -> None:
    (text,) = as_json(one_file())
    ((row,),) = [json.loads(text)]
    assert row["cell"] is None
    assert row["url"] == rule_url("GL101")
    assert "cell" not in row["fix"]["edits"][0]
    assert "cell" not in row["related"][0]


def test_json_lines_are_the_same_findings() -> None:
    given = report([*one_file().results, *notebook().results])
    (text,) = as_json(given)
    lines = list(as_jsonl(given))
    assert [json.loads(line) for line in lines] == json.loads(text)
    assert len(lines) == 2
    assert list(as_jsonl(report([]))) == []


def test_rows_in_the_file() -> None:
    source = notebook_source()
    lines = source.decode().split("\n")
    rows = json_rows(source)
    assert set(rows) == set(CELLS)
    for number, text in CELLS.items():
        assert [json.loads(lines[row - 1].strip().rstrip(",")) for row in rows[number]] == text.splitlines(True)


def test_rows_of_a_source_that_is_one_string() -> None:
    source = notebook_source(joined=True)
    (row, *others) = json_rows(source)[2]
    assert others == [row, row]
    assert source.decode().split("\n")[row - 1].strip() == '"source": "import torch\\n\\nstep()"'


@pytest.mark.parametrize(
    ("pieces", "holding"),
    [
        (["a\nb\n", "c"], [0, 0, 1]),
        (["a", "b\n", "c\n", ""], [0, 2]),
        (["\u2028\n", "b"], [0, 1]),
        (['say "hi"\n', "\\"], [0, 1]),
        ([], []),
    ],
)
def test_rows_of_pieces_that_are_not_lines(pieces: list[str], holding: list[int]) -> None:
    cell = {"cell_type": "code", "metadata": {}, "source": pieces}
    text = json.dumps({"cells": [cell], "metadata": {}}, indent=1, ensure_ascii=False)
    above = text[: text.index('"source"')].count("\n") + 1
    assert json_rows(text.encode())[1] == [above + 1 + piece for piece in holding]


@pytest.mark.parametrize("source", [b"", b"{", b"[]", b'{"cells": []}', b"\xff"])
def test_what_is_no_notebook_has_no_rows(source: bytes) -> None:
    assert json_rows(source) == {}


def _fixed(**changed: str) -> FixedFile:
    whole: dict[str, Any] = json.loads(notebook_source())
    for number, text in changed.items():
        whole["cells"][int(number[1:]) - 1]["source"] = text.splitlines(True)
    return FixedFile("nb.ipynb", notebook_source(), json.dumps(whole, indent=1).encode(), ())


def test_a_diff_for_each_cell() -> None:
    file = _fixed(c2="import torch\n\nclip()\nstep()", c4="x = 1")
    assert unified(file).decode() == (
        "--- nb.ipynb:cell 2\n+++ nb.ipynb:cell 2\n@@ -1,3 +1,4 @@\n import torch\n \n+clip()\n step()\n"
        "--- nb.ipynb:cell 4\n+++ nb.ipynb:cell 4\n@@ -1,2 +1 @@\n x = 1\n-clip()\n"
    )
    colours = list(painted(file, Paint(True)))
    assert colours[:2] == ["\x1b[1m--- nb.ipynb:cell 2\x1b[0m", "\x1b[1m+++ nb.ipynb:cell 2\x1b[0m"]
    assert colours[7] == "\x1b[1m--- nb.ipynb:cell 4\x1b[0m"


def test_a_cell_that_stays_has_no_diff() -> None:
    assert b"cell 2" not in unified(_fixed(c4="x = 1"))
