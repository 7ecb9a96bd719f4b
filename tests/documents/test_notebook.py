"""Notebooks are one program, told cell by cell, and fixed without touching any other byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradlint.config import Settings
from gradlint.documents import fix, lint, program_text
from gradlint.documents.cells import CodeCell
from gradlint.documents.notebook import Notebook, cells_of, fix_cells, lint_cells, per_cell, read
from gradlint.model import FileResult, FixSafety
from gradlint.repair.edits import applied
from tests.documents.notebooks import CLIP_LATE, CLIP_RIGHT, notebook, sources

NAME = "train.ipynb"
DEFAULT = Settings()


def places(result: FileResult) -> list[tuple[str, str]]:
    return [(finding.code, str(result.place(finding.span.start))) for finding in result.findings]


def test_findings_name_cell_and_row() -> None:
    result = lint(notebook("import torch", CLIP_LATE), NAME, DEFAULT)
    assert places(result) == [("GL101", "cell 3:6:5")]
    assert str(result.place(result.findings[0].related[0].span.start)) == "cell 3:5:5"


def test_cells_are_one_program_in_the_order_they_are_written() -> None:
    """What makes the loop wrong stands in another cell."""
    setup = "scaler = torch.amp.GradScaler()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    step = """\
def update(loss):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()"""
    loop = "for x, y in loader:\n    update(criterion(model(x), y))"
    result = lint(notebook("import torch", setup, step, loop), NAME, DEFAULT)
    assert places(result) == [("GL201", "cell 4:4:5")]
    assert lint(notebook(setup, loop), NAME, DEFAULT).findings == ()


def test_magics_and_shell_lines_are_out_of_the_way() -> None:
    first = "%load_ext autoreload\n!pip install torch \\\n    --quiet\nfiles = !ls\nimport torch\nmodel?"
    result = lint(notebook(first, f"%%time\n{CLIP_LATE}", "%%bash\nloss.backward()"), NAME, DEFAULT)
    assert places(result) == [("GL101", "cell 3:7:5")]


def test_a_broken_cell_is_told_and_the_others_are_linted() -> None:
    result = lint(notebook("import torch", "def f(:\n    pass", CLIP_LATE), NAME, DEFAULT)
    assert places(result) == [("GL900", "cell 3:1:7"), ("GL101", "cell 4:6:5")]
    assert "This cell does not parse" in result.findings[0].message


def test_a_cell_may_be_indented_as_a_whole() -> None:
    """IPython moves it to the left; places are told as it is written, and there is no fix."""
    indented = "".join(f"  {line}" for line in CLIP_LATE.splitlines(keepends=True))
    result = lint(notebook("import torch", f"\n{indented}"), NAME, DEFAULT)
    assert places(result) == [("GL101", "cell 3:7:7")]
    assert result.findings[0].fix is None


def test_comments_silence_in_cells() -> None:
    silenced = CLIP_LATE + "  # gradlint: ignore[GL101]"
    result = lint(notebook("import torch", silenced), NAME, DEFAULT)
    assert (result.findings, result.suppressed) == ((), 1)
    assert lint(notebook("# gradlint: ignore-file", CLIP_LATE), NAME, DEFAULT).findings == ()


@pytest.mark.parametrize(
    "metadata", [{"language_info": {"name": "R"}}, {"kernelspec": {"language": "julia", "name": "julia-1.9"}}]
)
def test_other_languages_are_not_read(metadata: dict[str, object]) -> None:
    assert lint(notebook(CLIP_LATE, metadata=metadata), NAME, DEFAULT) == FileResult(NAME)


@pytest.mark.parametrize("metadata", [{}, {"kernelspec": {"name": "python3"}}, {"language_info": {"name": "python"}}])
def test_a_notebook_that_does_not_say_is_python(metadata: dict[str, object]) -> None:
    assert len(lint(notebook(CLIP_LATE, metadata=metadata), NAME, DEFAULT).findings) == 1


def test_what_is_no_notebook_is_told() -> None:
    broken = lint(notebook(CLIP_LATE)[:-40], NAME, DEFAULT)
    assert [(f.code, f.span.start.row > 1) for f in broken.findings] == [("GL900", True)]
    assert "not valid JSON" in broken.findings[0].message
    for source, reason in (
        (b"[1, 2]", "not a notebook"),
        (b'{"worksheets": [], "nbformat": 3}', "format 3"),
        (b"\xff\xfe{}", "cannot be decoded"),
    ):
        unreadable = lint(source, NAME, DEFAULT).unreadable
        assert unreadable is not None
        assert reason in unreadable.reason


STYLES = [
    {"indent": 1},
    {"indent": 2},
    {"indent": None},
    {"indent": 1, "as_list": False},
    {"indent": 1, "end": ""},
    {"indent": 4, "end": "\n\n"},
]


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_fixing_touches_the_cell_and_nothing_else(style: dict[str, object]) -> None:
    """Swapping the two lines by hand in the JSON gives the same bytes."""
    before = notebook("import torch", CLIP_LATE, "print('done')", **style)  # type: ignore[arg-type] # as it is called
    after = notebook("import torch", CLIP_RIGHT, "print('done')", **style)  # type: ignore[arg-type] # as it is called
    fixed = fix(before, NAME, DEFAULT, unsafe=False)
    assert fixed.source == after
    assert [finding.code for finding in fixed.applied] == ["GL101"]
    assert fixed.result.findings == ()


def test_a_source_that_is_not_all_text_is_left_alone() -> None:
    """What is no text would be gone once the cell is written anew."""
    cell: dict[str, object] = {
        "cell_type": "code",
        "metadata": {},
        "source": [CLIP_LATE, 3],
        "outputs": [],
        "execution_count": None,
    }
    odd = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()
    assert fix(odd, NAME, DEFAULT, unsafe=False).source == odd


def test_escapes_of_untouched_lines_stay_as_they_are_written() -> None:
    text = CLIP_LATE.replace("loss = ", "löss = loss = ") + "  # ü"
    before = json.dumps(json.loads(notebook(text)), indent=1, ensure_ascii=True).encode()
    after = fix(before, NAME, DEFAULT, unsafe=False).source
    assert after.isascii()
    assert sources(after)[0].splitlines()[4].endswith("# ü")
    assert sources(after)[0].splitlines()[2] == "    löss = loss = criterion(model(x), y)"


def test_windows_line_ends_and_byte_order_marks_stay() -> None:
    data = notebook("import torch", CLIP_LATE).replace(b"\n", b"\r\n")
    fixed = fix(b"\xef\xbb\xbf" + data, NAME, DEFAULT, unsafe=False).source
    assert fixed == b"\xef\xbb\xbf" + notebook("import torch", CLIP_RIGHT).replace(b"\n", b"\r\n")


def test_magics_inside_a_mended_loop_survive() -> None:
    text = CLIP_LATE.replace("    optimizer.step()", "    !nvidia-smi\n    optimizer.step()")
    fixed = fix(notebook("import torch", text), NAME, DEFAULT, unsafe=False).source
    assert sources(fixed)[1] == CLIP_RIGHT.replace("    torch.nn", "    !nvidia-smi\n    torch.nn")


def test_a_fix_leaves_every_cell_a_program() -> None:
    """Cells are run one by one: each must parse alone, before and after."""
    cells = [CodeCell(1, "import torch"), CodeCell(2, CLIP_LATE), CodeCell(3, "x = 1")]
    fixed = fix_cells(cells, NAME, DEFAULT, unsafe=False)
    assert fixed.texts == {2: CLIP_RIGHT}


def test_a_fix_of_several_cells_is_unsafe() -> None:
    """The clip is moved from its own cell into that of the step: right as a program, if they are run so."""
    texts = ("import torch", "loss = criterion(model(x), y)\nloss.backward()", "optimizer.step()",
             "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)")  # fmt: skip
    cells = [CodeCell(number, text) for number, text in enumerate(texts, start=1)]
    found = [f.fix for f in lint_cells(cells, NAME, DEFAULT).findings if f.code == "GL101"]
    assert [fix is not None and len(per_cell(cells, fix.edits)) for fix in found] == [2]
    assert [fix is not None and fix.safety for fix in found] == [FixSafety.UNSAFE]


def test_edits_are_told_in_rows_of_their_cell() -> None:
    cells = [CodeCell(2, "import torch"), CodeCell(5, CLIP_LATE), CodeCell(6, "x = 1")]
    result = lint_cells(cells, NAME, DEFAULT)
    assert result.findings[0].fix is not None
    edits = per_cell(cells, result.findings[0].fix.edits)
    assert set(edits) == {5}
    assert applied(CLIP_LATE, edits[5]) == CLIP_RIGHT


def test_programs_and_cells_of_a_file() -> None:
    data = notebook("%time\nimport torch", "", "x = 1\n")
    assert {cell.number: cell.text for cell in cells_of(data)} == {2: "%time\nimport torch", 3: "", 4: "x = 1\n"}
    assert program_text(data, NAME) == "%time\nimport torch\nx = 1\n"


def test_a_coding_line_in_a_cell_means_nothing() -> None:
    result = lint(notebook("# -*- coding: latin-1 -*-\nname = 'é'", CLIP_LATE), NAME, DEFAULT)
    assert places(result) == [("GL101", "cell 3:6:5")]


JSON_TEXT = st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0x1FFFF), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | JSON_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(JSON_TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(JSON_TEXT, min_size=1, max_size=4), st.lists(JSON_TEXT, max_size=4), VALUES,
    st.sampled_from([None, 0, 1, 4]), st.booleans(), st.booleans(),
)  # fmt: skip
def test_sources_are_found_and_written_in_any_json(
    old: list[str], new: list[str], extra: object, indent: int | None, as_list: bool, escaped: bool
) -> None:
    """Whatever stands round them: the right values are replaced, and all others stay to the byte."""

    def written(texts: list[str]) -> bytes:
        cells = [
            {"source": "no code", "x": extra, "cell_type": "raw"},
            *(
                {"m": {"source": text}, "cell_type": "code", "source": text.splitlines(True) if as_list else text}
                for text in texts
            ),
        ]
        return json.dumps({"y": extra, "cells": cells, "z": extra}, indent=indent, ensure_ascii=escaped).encode()

    data = written(old)
    found = read(data)
    assert isinstance(found, Notebook)
    assert [cell.text for cell in found.code_cells()] == old
    texts = {cell.number: text for cell, text in zip(found.code_cells(), new, strict=False)}
    after = json.loads(found.with_sources(texts))
    expected = json.loads(data)
    for number, text in texts.items():
        cell = expected["cells"][number - 1]
        assert "".join(after["cells"][number - 1].pop("source")) == text
        assert isinstance(cell.pop("source"), list) is as_list
    assert after == expected


@pytest.mark.parametrize("name", ["a.ipynb", "B.IPYNB"])
def test_fixed_through_the_command_line(tmp_path: Path, name: str) -> None:
    from click.testing import CliRunner

    from gradlint.cli.check import check

    file = tmp_path / name
    file.write_bytes(notebook("import torch", CLIP_LATE))
    found = CliRunner().invoke(check, [str(file), "--no-cache", "--output-format", "concise"], standalone_mode=False)
    assert f"{file}:cell 3:6:5: GL101 [*]" in found.output
    CliRunner().invoke(check, [str(file), "--no-cache", "--fix"], standalone_mode=False)
    assert file.read_bytes() == notebook("import torch", CLIP_RIGHT)


@pytest.mark.parametrize("others", ["import torch\nimport os\n", "import torch\r\nimport os\r\n"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_new_lines_end_as_those_of_their_cell(others: str, newline: str) -> None:
    """Whatever the other cells do."""
    before, after = CLIP_LATE.replace("\n", newline), CLIP_RIGHT.replace("\n", newline)
    fixed = fix_cells([CodeCell(1, others), CodeCell(2, before)], NAME, DEFAULT, unsafe=False)
    assert fixed.texts == {2: after}


@pytest.mark.parametrize("data", [b"", b" \n", b"\xef\xbb\xbf\n"])
def test_a_file_that_was_just_made_is_a_notebook_without_cells(data: bytes) -> None:
    assert lint(data, NAME, DEFAULT) == FileResult(NAME)
    assert fix(data, NAME, DEFAULT, unsafe=True).source == data


def test_half_a_character_is_called_so() -> None:
    (finding,) = lint(notebook("x = '\\ud800'\nloss.backward()").replace(b"\\\\ud", b"\\ud"), NAME, DEFAULT).findings
    assert "half of a character" in finding.message


def test_the_grammar_of_a_newer_python_is_no_mistake() -> None:
    """As in a file: nobody has to run gradlint in the Python that runs the notebook."""
    newer = 'type Row[T] = dict[str, T]\nprint(f"{row["a"]}")\n!ls\n'
    assert places(lint(notebook("import torch", newer, CLIP_LATE), NAME, DEFAULT)) == [("GL101", "cell 4:6:5")]
