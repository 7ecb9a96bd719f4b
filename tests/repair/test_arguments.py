"""Arguments: found by name or by position, and added in the layout of those that are there."""

from __future__ import annotations

import libcst as cst
import pytest

from gradlint.events import Site
from gradlint.repair.arguments import argument, by_keyword, keyword, named, pass_keyword
from gradlint.repair.nodes import NotFixable
from tests.repair.benches import bench


def _call(code: str) -> cst.Call:
    return cst.ensure_type(cst.parse_expression(code), cst.Call)


def _code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


@pytest.mark.parametrize("code", ["f(x, limit)", "f(x, n=limit)", "f(n=limit, a=x)"])
def test_by_name_or_by_position(code: str) -> None:
    assert _code(argument(_call(code), "n", 1).value) == "limit"


@pytest.mark.parametrize("code", ["f(x)", "f(*x, limit)", "f(x, **more)"])
def test_an_argument_that_is_not_written(code: str) -> None:
    with pytest.raises(NotFixable):
        argument(_call(code), "n", 1)


def test_by_keyword() -> None:
    found = by_keyword(_call("f(n, m=n, n=1)"), "n")
    assert found is not None
    assert _code(found.value) == "1"
    assert by_keyword(_call("f(n, **n)"), "n") is None


def test_a_new_name_keeps_the_spaces_of_the_old_one() -> None:
    (plain,) = _call("f(1)").args
    (spaced,) = _call("f(a = 1)").args
    assert _code(named(plain, "b")) == "b=1"
    assert _code(named(spaced, "b")) == "b = 1"
    assert _code(keyword("b", cst.Name("x"))) == "b=x"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(x)", "f(x, n=1)"),
        ("f(x,)", "f(x, n=1,)"),
        ("f(\n    x,\n    y,\n)", "f(\n    x,\n    y,\n    n=1,\n)"),
        ("f(\n    x,  # why\n)", "f(\n    x,  # why\n    n=1,\n)"),
        ("f(\n    x\n)", "f(\n    x,\n    n=1\n)"),
    ],
)
def test_one_more(before: str, after: str) -> None:
    on = bench(before)
    at = next(n for n in range(99) if isinstance(on.node(Site(n, "")), cst.Call))
    pass_keyword(on, Site(at, ""), "n", "1")
    assert on.document.text() == after


@pytest.mark.parametrize("code", ["f()", "f(x, **more)"])
def test_no_place_for_one_more(code: str) -> None:
    on = bench(code)
    at = next(n for n in range(99) if isinstance(on.node(Site(n, "")), cst.Call))
    with pytest.raises(NotFixable):
        pass_keyword(on, Site(at, ""), "n", "1")
