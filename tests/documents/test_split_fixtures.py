"""A file and a notebook of its top-level statements are the same program, with the same findings and fixes."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

import pytest

from gradlint.config import Settings
from gradlint.documents import fix, lint
from gradlint.documents.cells import CodeCell
from gradlint.documents.notebook import fix_cells, lint_cells
from gradlint.python.source import lines_of
from tests.sampling import spread

FIXTURES = Path(__file__).parents[2] / "fixtures"
FILES = [path for path in sorted(FIXTURES.glob("*/bad*.py")) if "syntax" not in path.parent.name]
EVERYTHING = Settings()


def cells_of(text: str) -> list[CodeCell]:
    """A cell for each statement at the top and the comments under it; the last line of a cell has no end."""
    rows = lines_of(text)
    starts: list[int] = []
    for statement in ast.parse(text).body:
        first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
        if starts and first <= starts[-1]:
            continue  # two statements on one row
        starts.append(first)
    edges = [1, *starts[1:], len(rows) + 1]
    pieces = ["".join(rows[low - 1 : high - 1]) for low, high in pairwise(edges)]
    return [CodeCell(2 * n + 1, piece.rstrip("\n")) for n, piece in enumerate(pieces)]


def plain(path: Path) -> str | None:
    """The text without empty lines between statements; None where line ends are what the file is about."""
    data = path.read_bytes()
    if b"\r" in data or b"\\\n" in data or b"coding" in data or not data.isascii():
        return None
    cells = cells_of(data.decode())
    return "\n".join(cell.text for cell in cells) + "\n" if all(cell.text for cell in cells) else None


@pytest.mark.parametrize("path", spread(FILES, 3, 24), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_cells_are_the_same_program(path: Path) -> None:
    text = plain(path)
    if text is None:
        pytest.skip("its line ends are what it is about")
    cells = cells_of(text)
    file = lint(text.encode(), str(path), EVERYTHING)
    notebook = lint_cells(cells, str(path), EVERYTHING)
    assert [(f.code, f.span, f.message) for f in notebook.findings] == [
        (f.code, f.span, f.message) for f in file.findings
    ]
    fixed = fix(text.encode(), str(path), EVERYTHING, unsafe=True)
    mended = fix_cells(cells, str(path), EVERYTHING, unsafe=True)
    if [f.code for f in mended.applied] != [f.code for f in fixed.applied]:
        assert len(mended.applied) < len(fixed.applied)  # a fix that reaches over cells is not offered
        return
    texts = [mended.texts.get(cell.number, cell.text) for cell in cells]
    for piece in texts:
        ast.parse(piece)
    together = "\n".join(texts) + "\n"
    assert [line for line in together.splitlines() if line.strip()] == [
        line for line in fixed.source.decode().splitlines() if line.strip()
    ]


@pytest.mark.parametrize("path", spread(FILES, 2, 12), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_that_a_cell_writes_is_fixed_as_the_file_is(path: Path) -> None:
    text = plain(path)
    if text is None:
        pytest.skip("its line ends are what it is about")
    magic = "%%writefile train.py\n"
    cells = [CodeCell(1, "import os\nx = 1"), CodeCell(3, magic + text), CodeCell(4, "y = 2")]
    fixed = fix(text.encode(), str(path), EVERYTHING, unsafe=True)
    mended = fix_cells(cells, str(path), EVERYTHING, unsafe=True)
    assert {3: cells[1].text, **mended.texts} == {3: magic + fixed.source.decode()}
    assert [f.code for f in mended.applied] == [f.code for f in fixed.applied]
