"""Comments and prose are no code; whatever is code stays, and where that is unclear, everything does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gradlint.prefilter import without_prose
from tests.sampling import spread

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.mark.parametrize(
    ("source", "left"),
    [
        (b"x = 1  # clip the gradients\ny = 2\n", b"x = 1  \ny = 2\n"),
        (b"x = 1  # clip\ry = 2\r", b"x = 1  \ry = 2\r"),
        (b'"""Calls `loss.backward()`\n\nand "steps"."""\nstep()\n', b'""\nstep()\n'),
        (b"'''It's \\''' here.'''\nstep()\n", b'""\nstep()\n'),
        (b'getattr(optimizer, "step")()\n', b'getattr(optimizer, "step")()\n'),
        (b'print("a # b", step())\n', b'print("", step())\n'),
        (b'print("it\\"s a step", step())\n', b'print("", step())\n'),
        (b'print(f"after {optimizer.step()} and {x}")\n', b'print(f""{optimizer.step()} {x})\n'),
        (b'print(rf"after {step()}", Fr"b {step()}")\n', b'print(rf""{step()}, Fr""{step()})\n'),
        (b'x = "" or """"""\nstep()\n', b'x = "" or """"""\nstep()\n'),
    ],
)
def test_only_code_is_left(source: bytes, left: bytes) -> None:
    assert without_prose(source) == left


@pytest.mark.parametrize(
    "source",
    [
        b'f"{d["a key"]} and {step("b c")}"  # stays\n',  # the same quotation marks inside, since Python 3.12
        b'f"{{ {d["a key"]} }}"  # stays\n',
        b'x = "never ended\nstep()  # stays\n',
    ],
)
def test_what_is_unclear_stays(source: bytes) -> None:
    assert without_prose(source) == source


@pytest.mark.parametrize("path", spread(sorted(FIXTURES.glob("*/*.py")), 30, 300), ids=lambda path: path.stem)
def test_names_and_words_stay(path: Path) -> None:
    source = path.read_bytes()
    code = without_prose(source).decode()
    for node in ast.walk(ast.parse(source)):
        for name in (getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "value", None)):
            if isinstance(name, str) and name.isidentifier():
                assert name in code
