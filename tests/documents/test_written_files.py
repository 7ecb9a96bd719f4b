"""Cells that write Python files (`%%writefile train.py`): each file is a program of its own, told in its cells."""

from __future__ import annotations

import pytest

from gradlint.config import Settings
from gradlint.documents import fix, lint, runnable
from gradlint.documents.cells import CodeCell
from gradlint.documents.escapes import Written, written
from gradlint.documents.notebook import fix_cells, lint_cells, per_cell
from gradlint.repair.edits import applied
from tests.documents.notebooks import CLIP_LATE, CLIP_RIGHT, notebook, sources
from tests.documents.test_notebook import DEFAULT, NAME, places

HEAD = "%%writefile train.py\nimport torch\n"
SETUP = "def limit():\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
#: GL101, if it is known what `limit` does, and else nothing
STEP = CLIP_LATE.replace("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "limit()")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%%writefile train.py\nx = 1", Written("train.py", False, 1)),
        ("\n%%file 'a b.py'\nx = 1", Written("a b.py", False, 2)),
        ("%%writefile -a src/train.py\nx = 1", Written("src/train.py", True, 1)),
        ("%%writefile train.py --append", Written("train.py", True, 1)),
        ("%%writefile train.sh\necho", None),
        ("%%writefile\nx = 1", None),
        ("%%bash\necho > train.py", None),
        ("x = 1\n%%writefile train.py", None),
        ("%writefile train.py", None),
    ],
)
def test_which_cells_write_python(text: str, expected: Written | None) -> None:
    assert written(text) == expected


def test_a_written_file_is_linted_in_rows_of_its_cell() -> None:
    result = lint(notebook("import os", HEAD + CLIP_LATE, "print('done')"), NAME, DEFAULT)
    assert places(result) == [("GL101", "cell 3:8:5")]
    assert str(result.place(result.findings[0].related[0].span.start)) == "cell 3:7:5"


@pytest.mark.parametrize("as_list", [True, False])
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_written_file_is_fixed_in_its_cell(end: str, as_list: bool) -> None:
    before = notebook("import os", HEAD + CLIP_LATE + end, "%matplotlib inline", as_list=as_list)
    fixed = fix(before, NAME, DEFAULT, unsafe=False)
    assert fixed.source == notebook("import os", HEAD + CLIP_RIGHT + end, "%matplotlib inline", as_list=as_list)
    assert [finding.code for finding in fixed.applied] == ["GL101"]
    assert fixed.result.findings == ()


def test_notebook_and_file_are_fixed_in_one_run() -> None:
    fixed = fix(notebook("import torch", HEAD + CLIP_LATE, CLIP_LATE), NAME, DEFAULT, unsafe=False)
    assert sources(fixed.source) == ["import torch", HEAD + CLIP_RIGHT, CLIP_RIGHT]


def test_a_file_is_no_part_of_the_notebook() -> None:
    """Neither knows the other's names, nor heeds the other's comments."""
    assert lint(notebook("import torch", HEAD + SETUP, STEP), NAME, DEFAULT).findings == ()
    assert lint(notebook("import torch", SETUP, HEAD + STEP), NAME, DEFAULT).findings == ()
    assert places(lint(notebook(HEAD + SETUP + STEP), NAME, DEFAULT)) == [("GL101", "cell 2:4:5")]
    silent = "# gradlint: ignore-file\n"
    assert ("GL101", "cell 3:8:5") in places(lint(notebook(silent, HEAD + CLIP_LATE), NAME, DEFAULT))
    assert ("GL101", "cell 4:6:5") in places(lint(notebook("import torch", HEAD + silent, CLIP_LATE), NAME, DEFAULT))
    assert lint(notebook(HEAD + silent + CLIP_LATE), NAME, DEFAULT).findings == ()


def test_a_file_may_go_on_in_another_cell() -> None:
    more = "%%writefile -a train.py\n" + STEP
    assert places(lint(notebook(HEAD + SETUP, "x = 1", more), NAME, DEFAULT)) == [("GL101", "cell 2:4:5")]
    other = more.replace("train.py", "other.py")
    assert lint(notebook(HEAD + SETUP, "x = 1", other), NAME, DEFAULT).findings == ()


def test_a_file_that_is_written_anew_is_another() -> None:
    anew = "%%writefile train.py\n" + STEP
    assert lint(notebook(HEAD + SETUP, anew), NAME, DEFAULT).findings == ()


def test_a_file_that_does_not_parse_is_told() -> None:
    result = lint(notebook("import torch", "%%writefile train.py\n!ls\ndef f(:", CLIP_LATE), NAME, DEFAULT)
    assert places(result) == [("GL900", "cell 3:2:1"), ("GL101", "cell 4:6:5")]


def test_what_is_not_python_is_left_alone() -> None:
    assert lint(notebook("%%writefile run.sh\nloss.backward("), NAME, DEFAULT).findings == ()


def test_edits_at_both_ends_of_a_file_stay_in_its_cell() -> None:
    """A new import goes to the top of the file, below the magic, and a new last line does not open the next cell."""
    loop = """\
%%writefile train.py
from torch.nn.utils import clip_grad_norm
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    clip_grad_norm(model.parameters(), 1.0)
    optimizer.step()
"""
    cells = [CodeCell(1, "import os\nimport sys"), CodeCell(2, loop), CodeCell(3, "x = 1")]
    (finding,) = [f for f in lint_cells(cells, NAME, DEFAULT).findings if f.code == "GL110"]
    assert finding.fix is not None
    split = per_cell(cells, finding.fix.edits)
    assert set(split) == {2}
    mended = applied(loop, split[2])
    assert mended.startswith("%%writefile train.py\nfrom torch")
    assert mended.count("clip_grad_norm_") == 2
    unfinished = (
        "%%writefile train.py\nfor x, y in loader:\n    criterion(model(x), y).backward()\n    optimizer.step()"
    )
    fixed = fix_cells([cells[0], CodeCell(2, unfinished), cells[2]], NAME, DEFAULT, unsafe=True)
    assert set(fixed.texts) == {2}
    assert fixed.texts[2].startswith("%%writefile train.py\nfor ")
    assert "optimizer.zero_grad()" in fixed.texts[2]


def test_running_a_notebook_leaves_written_files_out() -> None:
    data = notebook("import torch", HEAD + CLIP_LATE, "x = 1")
    assert runnable(data, NAME) == b"import torch\n" + b"\n" * 8 + b"x = 1\n"


INDENTED = f"\n  {CLIP_LATE}".replace("\n", "\n  ")


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        (("import torch", INDENTED), "cell 3:7:7: GL101 has no fix here: cell 3 is indented"),
        (("import torch", f"{HEAD}\n{CLIP_LATE}\n    norm = total(model)"), ""),
    ],
)
def test_the_reason_for_no_fix_names_the_cell(cells: tuple[str, ...], note: str) -> None:
    notes = lint(notebook(*cells), NAME, Settings()).notes
    assert [one[: len(note)] for one in notes] == ([note] if note else [])
