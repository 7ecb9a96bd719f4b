"""What a name stands for, where the file settles it; and None where a caller, or a second line, could say otherwise."""

from __future__ import annotations

import ast
import textwrap

import pytest

from gradlint.python import syntax as s
from gradlint.python.constants import NOT_KNOWN, Constants, binary, compare, unary
from gradlint.python.lower import Lowering
from gradlint.python.module import Module


def _number(code: str) -> float | None:
    """The number that the call `look(…)` is given, by its first argument or by `n`."""
    constants = Constants(Module(Lowering(ast.parse(textwrap.dedent(code))).body))
    for expr, scope in constants.expressions():
        if isinstance(expr, s.Call) and s.render(expr.func) == "look":
            given, _, home = constants.argument(expr, "n", scope)
            return constants.number(expr.args[0], scope) if expr.args else constants.number(given, home)
    raise AssertionError("nobody looks")


@pytest.mark.parametrize(
    "code",
    [
        "look(2)",
        "N = 2\nlook(N)",
        "A = 2\nB = A\nlook(B)",
        "a, b = 2, 3\nlook(a)",
        "N = 2\ndef f():\n    look(N)",
        "def f():\n    n = 2\n    look(n)\ndef g():\n    n = 3",  # another function's name is another name
        "class C:\n    n = 2\nlook(C.n)",
        "class C:\n    n = 3\ndef f():\n    class C:\n        n = 2\n    look(C.n)",  # the one that is meant there
        "class C:\n    n = 2\nc = C()\nlook(c.n)",
        "class C:\n    def __init__(self):\n        self.n = 2\n    def f(self):\n        look(self.n)",
        "D = {'n': 2}\nlook(D['n'])",
        "D = dict(n=2)\nlook(D['n'])",
        "D = {}\nD['n'] = 2\nlook(D['n'])",
        "D = {'n': 2}\ndef f(D):\n    D['n'] = 3\nlook(D['n'])",  # another function's dict is another one
        "D = {'n': 2}\ndef f():\n    D = {}\n    D.update(more)\nlook(D['n'])",
        "look(n=2)",
        "D = {'n': 2}\nlook(**D)",
        "look(**dict(n=2, m=3))",
    ],
)
def test_settled(code: str) -> None:
    assert _number(code) == 2


@pytest.mark.parametrize(
    "code",
    [
        "look(n)",
        "look('2')",
        "look(True)",
        "N = 2\nN = 3\nlook(N)",
        "N = 2\nN += 1\nlook(N)",
        "N = 2\ndef f(N):\n    look(N)",
        "N = 2\ndef f():\n    global N\n    N = 3\nlook(N)",
        "N = 2\nlook(*[N for N in range(3)], N)",
        "def f(n=2):\n    look(n)",  # a default is what callers may override
        "for n in (2, 3):\n    look(n)",
        "a, b = pair\nlook(a)",
        "A = B\nB = A\nlook(A)",
        "class C:\n    n = 2\nC.n = 3\nlook(C.n)",
        "class C:\n    n = 2\nc = C(n=3)\nlook(c.n)",
        "class C:\n    n = 2\ndef f(c):\n    look(c.n)",
        "class C:\n    def __init__(self, n):\n        self.n = n\n    def f(self):\n        look(self.n)",
        "class A:\n    def __init__(self):\n        self.n = 2\nclass B:\n    def f(self):\n        look(self.n)",
        "class C:\n    n = 2\n    def f(self):\n        look(n)",  # methods do not see the names of the class body
        "D = {'n': 2}\nD['n'] = 3\nlook(D['n'])",
        "D = {'n': 2}\nD.update(more)\nlook(D['n'])",
        "D = {'n': 2}\ndef f():\n    D.update(more)\nlook(D['n'])",
        "D = {'n': 2}\nD[key] = 3\nlook(D['n'])",
        "class C:\n    n = 2\ndef f(C):\n    look(C.n)",  # another thing of that name
        "D = {'n': 2}\nD.update(more)\nlook(**D)",
    ],
)
def test_not_settled(code: str) -> None:
    assert _number(code) is None


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("look(m=2)", True),
        ("look(**{'m': 2})", True),
        ("look(**more)", False),
        ("look(**{**more})", False),
        ("look(*more)", False),
    ],
)
def test_whether_an_argument_is_absent(code: str, absent: bool) -> None:
    constants = Constants(Module(Lowering(ast.parse(code)).body))
    ((call, scope),) = [(e, scope) for e, scope in constants.expressions() if isinstance(e, s.Call)]
    assert constants.argument(call, "n", scope)[:2] == (None, absent)


@pytest.mark.parametrize(
    ("found", "value"),
    [
        (binary("+", 1, 2), 3),
        (binary("//", 3, 2), 1),
        (binary("%", 3, 0), NOT_KNOWN),
        (binary("+", "a", "b"), NOT_KNOWN),
        (binary("**", 2, 10**6), NOT_KNOWN),
        (binary("**", -1, 0.5), NOT_KNOWN),
        (unary("-", 1), -1),
        (unary("not", None), True),
        (compare("<", 1, 2), True),
        (compare("<", "a", "b"), NOT_KNOWN),
        (compare("==", "a", "a"), True),
        (compare("is not", 0, None), True),
        (compare("is", 1, True), False),
        (compare("in", "bf16", "bf16-mixed"), True),
        (compare("not in", "bf16", "fp16"), True),
        (compare("in", 1, 2), NOT_KNOWN),
    ],
)
def test_computing(found: object, value: object) -> None:
    assert found == value
