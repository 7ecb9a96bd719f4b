"""Names as they are written."""

from __future__ import annotations

import pytest

from gradlint.python import syntax as s
from gradlint.python.binding import called, identifiers, last
from tests.paths.tracing import program


def _expr(code: str) -> s.Expr:
    (stmt,) = program(code).body
    assert isinstance(stmt, s.ExprStmt)
    return stmt.value


@pytest.mark.parametrize(("code", "name"), [("a", "a"), ("a.b.c", "c"), ("f(x).b", "b"), ("a[0]", ""), ("f(x)", "")])
def test_last(code: str, name: str) -> None:
    assert last(_expr(code)) == name


@pytest.mark.parametrize(("code", "name"), [("f(x)", "f"), ("a.b.f(x)", "f"), ("g(x).f()", "f"), ("make()(x)", "")])
def test_called(code: str, name: str) -> None:
    call = _expr(code)
    assert isinstance(call, s.Call)
    assert called(call) == name


def test_identifiers() -> None:
    assert set(identifiers(_expr("f(self.args.steps, key=n) + 1"))) == {"f", "self", "args", "steps", "n"}
