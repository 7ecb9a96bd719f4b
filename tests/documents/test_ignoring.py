"""Where the comment goes that silences a finding: the finding must be gone, and the program the same."""

from __future__ import annotations

import ast

import pytest

from gradlint.config import Settings
from gradlint.documents.ignores import ignoring
from gradlint.engine import lint
from gradlint.model import Position, Span
from gradlint.repair.edits import applied

HEAD = """\
import torch

for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
LINES = {
    "plain": f"    {CLIP}\n",
    "no newline at the end": f"    {CLIP}",
    "spaces behind": f"    {CLIP}   \n",
    "crlf": f"    {CLIP}\r\n",
    "a remark": f"    {CLIP}  # keep it small\n",
    "another code": f"    {CLIP}  # gradlint: ignore[GL602]\n",
    "nothing named": f"    {CLIP}  # gradlint: ignore[]\n",
    "noqa of another": f"    {CLIP}  # noqa: E501\n",
    "a remark and another code": f"    {CLIP}  # small # gradlint: ignore[GL602]\n",
    "many lines": "    torch.nn.utils.clip_grad_norm_(\n        model.parameters(),\n        1.0,\n    )\n",
    "a backslash": "    torch.nn.utils.clip_grad_norm_ \\\n        (model.parameters(), 1.0)\n",
    "a string over lines": '    torch.nn.utils.clip_grad_norm_(model.parameters(), float("""\n1.0"""))\n',
    "comment on a later line": "    torch.nn.utils.clip_grad_norm_(\n        model.parameters(), 1.0\n"
    "    )  # gradlint: ignore[GL602]\n",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_the_finding_is_gone_and_the_program_the_same(line: str) -> None:
    text = HEAD + line
    (finding,) = [f for f in lint(text.encode(), "a.py", Settings()).findings if f.code == "GL101"]
    edit = ignoring(text, "GL101", finding.span)
    assert edit is not None
    after = applied(text, [edit])
    assert [f.code for f in lint(after.encode(), "a.py", Settings()).findings if f.code == "GL101"] == []
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(text))
    assert after.count("gradlint:") == 1
    assert after.endswith("\n") == text.endswith("\n")


def test_codes_are_put_into_the_comment_that_is_there() -> None:
    edit = ignoring("x = 1  # gradlint: ignore[GL101]  # why\n", "GL202", _span(1, 1))
    assert edit is not None
    assert (
        applied("x = 1  # gradlint: ignore[GL101]  # why\n", [edit])
        == "x = 1  # gradlint: ignore[GL101, GL202]  # why\n"
    )


def test_a_comment_for_the_whole_file_is_another_one() -> None:
    edit = ignoring("x = 1  # gradlint: ignore-file[GL101]\n", "GL202", _span(1, 1))
    assert edit is not None
    assert edit.content == "  # gradlint: ignore[GL202]"


def test_inside_of_a_string_there_is_no_place() -> None:
    assert ignoring('x = """\na\n"""\n', "GL101", _span(2, 2)) is None


def test_a_cell_with_a_magic_has_places() -> None:
    text = "%matplotlib inline\nx = 1\n"
    edit = ignoring(text, "GL101", _span(2, 2))
    assert edit is not None
    assert applied(text, [edit]) == "%matplotlib inline\nx = 1  # gradlint: ignore[GL101]\n"


def _span(first: int, last: int) -> Span:
    return Span(Position(first, 1), Position(last, 2))
