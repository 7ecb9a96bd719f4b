"""Which parameter gets which argument, for values of any kind."""

from __future__ import annotations

import pytest

from gradlint.python import syntax as s
from gradlint.python.calls import Arguments, bind, evaluated, fits, written
from tests.paths.tracing import program


def _params(signature: str) -> list[s.Param]:
    function = program(f"def f({signature}): ...").body[0]
    assert isinstance(function, s.Def)
    return function.params


def _call(text: str) -> s.Call:
    return next(program(text).calls())


@pytest.mark.parametrize(
    ("signature", "call", "values"),
    [
        ("a, b", "f(1, 2)", {"a": "1", "b": "2"}),
        ("a, b", "f(1, b=2)", {"a": "1", "b": "2"}),
        ("a, b=3", "f(b=2, a=1)", {"a": "1", "b": "2"}),
        ("a, *rest, b", "f(1, 2, b=3)", {"a": "1", "b": "3"}),
        ("a, **more", "f(1, c=3)", {"a": "1"}),
    ],
)
def test_bind(signature: str, call: str, values: dict[str, str]) -> None:
    found = bind(_params(signature), written(_call(call)))
    assert {name: s.render(expr) for name, expr in found.values.items()} == values


def test_what_is_left_over() -> None:
    found = bind(_params("a, b=1, *rest, c, **more"), Arguments([1, 2, 3], {"d": 4}))
    assert (found.values, found.rest, found.keywords) == ({"a": 1, "b": 2}, [3], {"d": 4})
    assert [param.name for param in found.missing] == ["c"]


@pytest.mark.parametrize(
    ("signature", "call", "taken"),
    [
        ("self, loader", "f()", False),
        ("loader=None", "f()", True),
        ("a", "f(1, 2)", False),
        ("a, *rest", "f(1, 2)", True),
        ("a", "f(1, b=2)", False),
        ("a, **more", "f(1, b=2)", True),
        ("a, b", "f(*anything)", True),
    ],
)
def test_fits(signature: str, call: str, taken: bool) -> None:
    assert fits(_params(signature), written(_call(call))) is taken


def test_stars_are_taken_apart_where_that_is_known() -> None:
    known: dict[str, object] = {"pair": [1, 2], "options": {"b": 3}, "x": 0}

    def items(value: object) -> list[object] | None:
        return value if isinstance(value, list) else None

    def entries(value: object) -> dict[str, object] | None:
        return value if isinstance(value, dict) else None

    def ev(expr: s.Expr) -> object:
        return known.get(s.render(expr))

    found = evaluated(_call("f(x, *pair, **options)"), ev, items, entries)
    assert (found.args, found.kwargs, found.starred) == ([0, 1, 2], {"b": 3}, False)
    assert [s.render(expr) for expr in found.exprs] == ["x", "*pair", "*pair"]
    assert evaluated(_call("f(*x)"), ev, items, entries).starred


def test_get_and_expression() -> None:
    call = written(_call("clamp(x, min=1)"))
    assert s.render(call.get(1, "min")) == "1"
    assert s.render(call.expression(0, "input")) == "x"
    assert call.get(1, "max") is None
    whole = call.behind(s.Name(-1, "t"), s.Name(-1, "t"))
    assert [s.render(arg) for arg in whole.args] == ["t", "x"]
    assert [s.render(arg) for arg in whole.without_first().args] == ["x"]
