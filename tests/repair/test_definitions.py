"""Where a local name gets its value, who reads it, and whether it is still the same further down."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from gradlint.repair.definitions import assignments, check_unchanged, definition, readers
from gradlint.repair.nodes import NotFixable
from tests.repair.benches import bench, looked_at


def _in_function(body: str) -> str:
    return f"def run(x, flag):\n{textwrap.indent(textwrap.dedent(body), '    ')}"


def _definition(body: str) -> str:
    on = bench(_in_function(body))
    name = looked_at(on)
    assert isinstance(name, cst.Name)
    return on.code(definition(on, name).value)


@pytest.mark.parametrize(
    "body",
    [
        "a = f(x)\nlook(a)",
        "a = g(x)\na = f(x)\nlook(a)",
        "a = f(x)\nif flag:\n    look(a)",
        "a = f(x)\nfor y in x:\n    look(a)",
        "with g():\n    a = f(x)\nlook(a)",
    ],
)
def test_the_one_that_counts(body: str) -> None:
    assert _definition(body) == "f(x)"


@pytest.mark.parametrize(
    "body",
    [
        "look(x)",  # a parameter
        "if flag:\n    a = f(x)\nelse:\n    a = g(x)\nlook(a)",
        "a = f(x)\nfor y in x:\n    look(a)\n    a = g(a)",
        "for a in x:\n    look(a)",
        "a, b = f(x)\nlook(a)",
        "a = b = f(x)\nlook(a)",
        "a = f(x)\na += 1\nlook(a)",
        "a = f(x)\ny = [look(a) for a in x]",
        "a = f(x); b = look(a)",
    ],
)
def test_not_just_one(body: str) -> None:
    with pytest.raises(NotFixable):
        _definition(body)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("a = f(x)\nlook(a)", 1),
        ("a = f(x)\nlook(a)\ng(a)", 2),
        ("a = f(x)\nlook(a)\na = g(a)\ng(a)", 2),  # the last reads another value
        ("a = f(x)\nlook(a)\nif flag:\n    a = 1\ng(a)", 2),
        ("a = f(x)\nlook(a)\nb.a = c(a=1)", 1),
        ("a = f(x)\nlook(a)\ndef inner():\n    return a", 2),
        ("while a:\n    g(a)\n    a = f(x)\n    look(a)", 3),  # the next turn sees it, too
    ],
)
def test_readers(body: str, count: int) -> None:
    on = bench(_in_function(body))
    name = looked_at(on)
    assert isinstance(name, cst.Name)
    assert len(readers(on, definition(on, name))) == count


@pytest.mark.parametrize(
    ("between", "same"),
    [
        ("", True),
        ("b = g(x)", True),
        ("x = g(a)", False),
        ("x[0] = 0", False),
        ("x.relu_()", False),
        ("x.__init__()", True),
    ],
)
def test_the_same_value_further_down(between: str, same: bool) -> None:
    on = bench(_in_function(f"a = f(x)\n{between}\nlook(a)"))
    name = looked_at(on)
    assert isinstance(name, cst.Name)
    made = definition(on, name)
    if same:
        check_unchanged(on, [made.value], made, name)
    else:
        with pytest.raises(NotFixable, match="`x` changes on the way"):
            check_unchanged(on, [made.value], made, name)


def test_assignments_by_a_dotted_name() -> None:
    on = bench("self.net = f()\nnet = g()\na = self.net = h()\nself.net.x = 1\nself.net += 1")
    assert [on.code(x.value) for x in assignments(on, "self.net")] == ["f()", "h()"]
