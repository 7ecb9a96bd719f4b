"""What is computed while a model is built on paper; what cannot be is no guess."""

from __future__ import annotations

import pytest

from gradlint.facts.stacks.folding import LONGEST, builtin, compare, compute, index, sliced, truth, unary
from gradlint.facts.stacks.wiring import END, SETTING, UNKNOWN, Known, Several, Value

ONE, TWO, THREE = Known(1), Known(2), Known(3)
ROW = Several((ONE, TWO, THREE))


@pytest.mark.parametrize(
    ("op", "left", "right", "result"),
    [
        ("+", ONE, TWO, THREE),
        ("//", THREE, TWO, ONE),
        ("%", THREE, Known(0), SETTING),
        ("*", Several((ONE,)), TWO, Several((ONE, ONE))),
        ("*", TWO, Several((ONE,)), Several((ONE, ONE))),
        ("+", Several((ONE,)), Several((TWO,)), Several((ONE, TWO))),
        ("+", Known("a"), Known("b"), SETTING),
        ("+", ONE, SETTING, SETTING),
        ("+", ONE, UNKNOWN, UNKNOWN),
    ],
)
def test_compute(op: str, left: Value, right: Value, result: Value) -> None:
    assert compute(op, left, right) == result


def test_no_list_is_endless() -> None:
    assert compute("*", Several((ONE,)), Known(10**9)) == Several((ONE,) * LONGEST)
    assert compute("*", ROW, Known(10**9)) == UNKNOWN
    assert builtin("range", [Known(10**9)]) == UNKNOWN


@pytest.mark.parametrize(
    ("op", "left", "right", "result"),
    [
        ("<", ONE, TWO, True),
        ("==", Known("a"), Known("a"), True),
        ("<", Known("a"), Known("b"), None),
        ("is", Known(None), Known(None), True),
        ("is not", ROW, Known(None), True),
        ("is", SETTING, Known(None), None),  # whoever gives it may give None
        ("is", UNKNOWN, Known(None), None),
        ("in", TWO, ROW, True),
        ("not in", Known(4), ROW, True),
        ("in", TWO, Several((ONE, UNKNOWN)), None),
    ],
)
def test_compare(op: str, left: Value, right: Value, result: bool | None) -> None:
    assert truth(compare(op, left, right)) is result


def test_unary() -> None:
    assert unary("-", ONE) == Known(-1)
    assert unary("not", Several(())) == Known(True)
    assert unary("not", UNKNOWN) == UNKNOWN


def test_items() -> None:
    assert index(ROW, Known(-1)) == THREE
    assert index(ROW, Known(3)) == UNKNOWN
    assert index(ROW, SETTING) == UNKNOWN
    assert sliced(ROW, [Known(-1)]) == Several((ONE, TWO))
    assert sliced(ROW, [ONE]) == Several((TWO, THREE))
    assert sliced(ROW, [ONE, TWO]) == Several((TWO,))
    assert sliced(ROW, [SETTING]) == UNKNOWN


@pytest.mark.parametrize(
    ("name", "args", "result"),
    [
        ("range", [TWO], Several((Known(0), ONE))),
        ("range", [ONE, Known(10), Known(0)], UNKNOWN),
        ("len", [ROW], THREE),
        ("len", [Several((ONE, END))], SETTING),  # something of unknown length is in it
        ("enumerate", [Several((TWO,))], Several((Several((Known(0), TWO)),))),
        ("zip", [ROW, Several((TWO,))], Several((Several((ONE, TWO)),))),
        ("reversed", [ROW], Several((THREE, TWO, ONE))),
        ("copy.deepcopy", [ROW], ROW),
        ("max", [ONE, TWO], SETTING),
        ("make", [ONE], None),
    ],
)
def test_builtin(name: str, args: list[Value], result: Value | None) -> None:
    assert builtin(name, args) == result
