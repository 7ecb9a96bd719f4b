"""A course's blanks and prose are no mistakes; what is one stays an error."""

from __future__ import annotations

import ast

import pytest

from gradlint import documents
from gradlint.config import Settings
from gradlint.model import FileResult, Severity
from gradlint.python.source import unfinished
from tests.documents.notebooks import notebook

TRAINS = "optimizer.zero_grad()\nloss.backward()\noptimizer.step()\n"

BLANKS = [
    "loss = <YOUR CODE HERE>",
    "x = f(<your code>, 2)",
    "for x in <...>:\n    pass",
    "< A whole lot of your code here >",
    "os.environ['KEY'] = <your-api-key>",
    "def f(self, ...):\n    ...",
    "def step(a, b):\n    # YOUR_CODE\n\nmodel = 1",
    "loss = # TODO: compute the loss",
    "output = ____(x) ____",
    "x = …",
    "optimizer = ???",
    "This notebook trains a model on images.",
    "1. First we load the data",
    "python train.py --lr 0.1",
]
MISTAKES = [
    "for batch in loader\n    loss = 1",
    "if x is not None\n    pass",
    "while not done and i < n\n    i += 1",
    "print 'hello'",
    "exec code in ns",
    "x = x[..., 0",
    "x = (1,\ny = 2",
    "a = b +",
    "def f():\nreturn 1",
    "x = 1  # TODO later\ny = = 2",
    "if a < b > :\n    pass",
    "except Exception, e:",
    "<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> branch",
]


def _unfinished(text: str) -> bool:
    with pytest.raises(SyntaxError) as raised:
        ast.parse(text)
    return unfinished(text, raised.value.lineno or 1, raised.value.msg)


@pytest.mark.parametrize("text", BLANKS)
def test_blanks(text: str) -> None:
    assert _unfinished(text)


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes(text: str) -> None:
    assert not _unfinished(text)


def _said(result: FileResult) -> list[tuple[str, Severity, int | None]]:
    return [(f.code, f.severity, result.place(f.span.start).cell) for f in result.findings]


def test_blanks_of_a_notebook_are_one_piece_of_advice() -> None:
    cells = ["loss = <YOUR CODE HERE>\n", TRAINS, "y = ____ ____\n", "for x in loader\n    pass\n"]
    result = documents.lint(notebook(*cells), "course.ipynb", Settings())
    assert _said(result) == [("GL900", Severity.ADVICE, 2), ("GL900", Severity.ERROR, 5)]
    assert "2 cells" in result.findings[0].message


def test_nothing_is_said_of_blanks_where_nothing_is_trained() -> None:
    assert documents.lint(notebook("key = <your-api-key>\n", "print(1)\n"), "a.ipynb", Settings()).findings == ()
    assert documents.lint(b"class A:\n    def f(self, ...):\n        ...\n", "a.py", Settings()).findings == ()


def test_a_skeleton_is_advice() -> None:
    result = documents.lint(f"loss = <YOUR CODE HERE>\n{TRAINS}".encode(), "a.py", Settings())
    assert [(f.code, f.severity) for f in result.findings] == [("GL900", Severity.ADVICE)]
