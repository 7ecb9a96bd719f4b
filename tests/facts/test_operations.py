"""Code in messages: whole where it fits, and cut where it can still be recognised."""

from __future__ import annotations

import pytest

from gradlint.facts.operations import cited
from gradlint.python import syntax as s
from tests.paths.tracing import program

LONG = "argument" * 8


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("torch.log(p)", "torch.log(p)"),
        (f"torch.log({LONG})", "torch.log(…)"),
        (f"f(x).log({LONG})", "f(x).log(…)"),
        (f"{LONG}.log()", f"{LONG[:55]}…"),
        (f"{LONG} + 1", f"{LONG[:55]}…"),
        ("x[:, 0]", "x[…]"),
    ],
)
def test_cited(code: str, text: str) -> None:
    (stmt,) = program(code).body
    assert isinstance(stmt, s.ExprStmt)
    assert cited(stmt.value) == text
