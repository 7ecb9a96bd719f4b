"""Fingerprints stay when code moves, and differ where findings differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradlint.config import Settings
from gradlint.engine import lint
from gradlint.fingerprints import _indented_name, _name, _scopes, fingerprints, normalised
from gradlint.model import FileResult, Finding, Position, Severity, Span
from tests.sources import BROKEN, CLIP_AFTER_STEP


def _at(row: int, column: int = 1, code: str = "GL101", message: str = "message") -> Finding:
    place = Position(row, column)
    return Finding(code, "clip-after-step", Severity.ERROR, message, Span(place, place))


def _values(text: str | None, *findings: Finding, path: str = "a.py") -> list[str]:
    return [made.value for made in fingerprints(FileResult(path, findings), text)]


def _row(text: str, part: str, occurrence: int = 0) -> int:
    return [number for number, line in enumerate(text.split("\n"), 1) if part in line][occurrence]


TRAIN = """\
import torch

class Trainer:
    def fit(self, model, batches):
        for batch in batches:
            self.optimizer.step()
            clip(model.parameters(), 1.0)

    def other(self):
        pass
"""
CLIP = "model.parameters()"


def _of(text: str, part: str = CLIP) -> str:
    return _values(text, _at(_row(text, part)))[0]


@pytest.mark.parametrize(
    "changed",
    [
        "# a new line\n\n" + TRAIN,
        TRAIN.replace("def other", "def renamed"),
        TRAIN.replace("import torch", "import torch.nn"),
        TRAIN.replace("self.optimizer.step()", "self.optimizer.step(closure)"),
        TRAIN.replace("clip(model.parameters(), 1.0)", "clip( model.parameters(),1.0 )  # too late"),
        TRAIN.replace("            clip", "            if True:\n                clip"),
        TRAIN.replace("    ", "\t"),
        TRAIN.replace("\n", "\r\n"),
        TRAIN.replace("import torch\n", "import torch\n\x0c\n"),
        TRAIN + "\n\ndef later():\n    clip(model.parameters(), 1.0)\n",
    ],
)
def test_what_does_not_touch_the_finding_does_not_touch_the_print(changed: str) -> None:
    assert changed != TRAIN
    assert _of(changed) == _of(TRAIN)


@pytest.mark.parametrize(
    "changed",
    [
        TRAIN.replace("1.0", "2.0"),
        TRAIN.replace("def fit", "def train"),
        TRAIN.replace("class Trainer", "class Fitter"),
    ],
)
def test_another_line_or_function_is_another_print(changed: str) -> None:
    assert _of(changed) != _of(TRAIN)


def test_another_rule_is_another_print_and_another_message_or_path_is_not() -> None:
    row = _row(TRAIN, CLIP)
    assert _values(TRAIN, _at(row, code="GL102")) != _values(TRAIN, _at(row))
    assert _values(TRAIN, _at(row, message="other words"), path="b.py") == _values(TRAIN, _at(row))
    assert _values(TRAIN, _at(row, column=13)) == _values(TRAIN, _at(row))


def test_the_same_line_twice_is_told_apart_by_order() -> None:
    text = TRAIN.replace(
        "            clip(model.parameters(), 1.0)\n", "            clip(model.parameters(), 1.0)\n" * 2
    )
    first, second = _values(text, _at(_row(text, CLIP, 1)), _at(_row(text, CLIP, 0)))
    assert first == _of(TRAIN)
    assert second != first
    assert len(set(_values(text, *[_at(_row(text, CLIP), column) for column in (1, 2, 3)]))) == 3


@pytest.mark.parametrize(
    ("row", "function"),
    [
        (1, ""),
        (2, ""),
        (3, "f"),
        (4, "f"),
        (5, "f.inner"),
        (6, "f.inner"),
        (7, "f"),
        (9, "A"),
        (10, "A"),
        (11, "A.m"),
        (12, "A.m"),
        (14, ""),
        (15, "g"),
        (17, ""),
    ],
)
def test_the_enclosing_function(row: int, function: str) -> None:
    text = """\
x = 1
@decorated
def f(a):
    if a:
        async def inner():
            pass
    return inner

class A:
    y = 2
    def m(self):
        pass

if x:
    def g(): pass

z = 3
"""
    made = fingerprints(FileResult("a.py", (_at(row),)), text)[0]
    assert made.function == function
    # indentation tells the same where Python cannot read the file
    assert _indented_name(text.splitlines(), row) == function


def test_a_broken_file_has_prints() -> None:
    result = lint(BROKEN.encode(), "a.py", Settings())
    (made,) = fingerprints(result, BROKEN)
    assert result.findings[0].code == "GL900"
    assert made.value == fingerprints(result, BROKEN)[0].value
    text = "class A:\n    def fit(self):\n        x = (\n"
    (made,) = fingerprints(FileResult("a.py", (_at(3),)), text)
    assert made[1:] == ("A.fit", "x = (")


@pytest.mark.parametrize("text", [None, "", "x = 1\n"])
def test_a_file_that_has_vanished_or_shrunk_is_no_error(text: str | None) -> None:
    first, second = fingerprints(FileResult("a.py", (_at(7), _at(8))), text)
    assert first.line == second.line == ""
    assert first.value != second.value


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("  x  =\t1 ", "x = 1"),
        ("x = 1  # why", "x = 1"),
        ("x = '#'  # why", "x = '#'"),
        ('x = "it\'s # here"# why', 'x = "it\'s # here"'),
        (r"x = '\'#'  # why", r"x = '\'#'"),
        ('"""text # of more', '"""text # of more'),
        ("  # only  a remark", "# only a remark"),
        ("", ""),
    ],
)
def test_lines_are_normalised(line: str, shown: str) -> None:
    assert normalised(line) == shown


def test_prints_are_in_the_order_of_the_reports() -> None:
    findings = (_at(7, code="GL102"), _at(6), _at(7), _at(7, code="GL101", message="a"))
    result = FileResult("a.py", findings)
    lines = TRAIN.splitlines()
    expected = [lines[finding.span.start.row - 1].strip() for finding in result.ordered()]
    assert [made.line for made in fingerprints(result, TRAIN)] == expected


def test_joined_cells_are_read_as_one_program() -> None:
    cells = "import torch\n\ndef train():\n    clip(model.parameters(), 1.0)\ntrain()\n"
    made = fingerprints(FileResult("a.ipynb", (_at(4), _at(5))), cells)
    assert [(one.function, one.line) for one in made] == [("train", "clip(model.parameters(), 1.0)"), ("", "train()")]


def test_magics_do_not_hide_the_function() -> None:
    cells = '%time\ndef train():\n    text = """\nno indent\n"""\n    !ls\n    clip(model)\n'
    (made,) = fingerprints(FileResult("a.ipynb", (_at(7),)), cells)
    assert made.function == "train"
    assert made == fingerprints(FileResult("a.ipynb", (_at(7),)), cells.replace("%time", "x").replace("!ls", "y"))[0]


def test_a_real_finding_is_known_again_below_other_lines() -> None:
    moved = f"import os\n\n\n{CLIP_AFTER_STEP}"
    before, after = (fingerprints(lint(text.encode(), "a.py", Settings()), text) for text in (CLIP_AFTER_STEP, moved))
    assert before == after != []


@given(st.text(alphabet="ab \t#'\"\\\n"))
def test_normalising_twice_changes_nothing(line: str) -> None:
    once = normalised(line)
    assert normalised(once) == once
    assert "  " not in once


@given(st.lists(st.integers(1, 9), max_size=6), st.text(alphabet="dxef :(\n\t'\"#\\"))
def test_all_prints_of_a_file_differ(rows: list[int], text: str) -> None:
    values = _values(text, *[_at(row) for row in rows])
    assert len(set(values)) == len(rows)


def test_scopes_of_deep_code_cost_no_recursion() -> None:
    text = "x = " + "+".join("1" * 3000) + "\n"
    scopes = _scopes(text)
    assert scopes is None or _name(scopes, 1) == ""
