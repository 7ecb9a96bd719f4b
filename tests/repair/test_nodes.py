"""Parentheses where code would fall apart, and none where it would not."""

from __future__ import annotations

import libcst as cst
import pytest

from gradlint.repair.nodes import bare, in_product, tight


def _code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


@pytest.mark.parametrize(
    ("code", "method"),
    [("x", "x"), ("a.b", "a.b"), ("f(x)", "f(x)"), ("x[0]", "x[0]"), ("(a + b)", "(a + b)"), ("a + b", "(a + b)"),
     ("-x", "(-x)"), ("1", "(1)"), ("lambda: x", "(lambda: x)")],
)  # fmt: skip
def test_something_that_a_method_is_called_on(code: str, method: str) -> None:
    assert _code(tight(cst.parse_expression(code))) == method


@pytest.mark.parametrize(
    ("code", "left"),
    [("((a + b))", "a + b"), ("x", "x"), ("(a, b)", "(a, b)"), ("(a for a in b)", "(a for a in b)")],
)
def test_bare(code: str, left: str) -> None:
    assert _code(bare(cst.parse_expression(code))) == left


@pytest.mark.parametrize(
    ("code", "operand"),
    [("x", "x"), ("2", "2"), ("0.5", "0.5"), ("a + b", "(a + b)"), ("a ** b", "(a ** b)"), ("(a + b)", "(a + b)")],
)
def test_an_operand_of_a_product(code: str, operand: str) -> None:
    assert in_product(code, cst.parse_expression(code)) == operand
