"""What statements bind, whoever asks, and what they leave alone."""

from __future__ import annotations

import pytest

from gradlint.python import syntax as s
from gradlint.python.binding import bound_by, own_statements, target_names
from tests.paths.tracing import program


@pytest.mark.parametrize(
    ("code", "bound"),
    [
        ("a = f()", ["a = f()"]),
        ("a = b.c = f()", ["a = f()", "b.c = f()"]),
        ("a += b", ["a = b"]),
        ("for a in b: pass", ["a = b"]),
        ("with f() as a, g(): pass", ["a = f()"]),
        ("def a(b): pass", ["a = "]),
        ("class A(B): pass", ["A = "]),
        ("f(a := b)", ["a = b"]),
        ("f([a for a in b])", ["a = b"]),
        ("a = lambda b: c", ["b = ", "a = lambda b: c"]),
        ("f(a)", []),
        ("import a", []),
        ("if a:\n    b = c", []),  # inner blocks are statements of their own
    ],
)
def test_bound_by(code: str, bound: list[str]) -> None:
    (stmt,) = program(code).body
    assert [f"{s.render(x.target)} = {s.render(x.source)}" for x in bound_by(stmt)] == bound


def test_targets_that_are_no_names_are_left_out() -> None:
    (stmt,) = program("a, (*b, c.d), e[0] = f()").body
    assert isinstance(stmt, s.Assign)
    assert list(target_names(stmt.targets[0])) == ["a", "b"]


def test_a_function_does_not_own_what_is_inside_its_functions() -> None:
    code = """
        if a:
            b = 1
        def f():
            c = 1
        class C:
            d = 1
    """
    names = [s.render(x.targets[0]) for x in own_statements(program(code).body) if isinstance(x, s.Assign)]
    assert names == ["b"]
