"""Python as the evaluator follows it, with a domain that only writes down what it is asked."""

from __future__ import annotations

import pytest

from gradlint.facts import joined
from gradlint.python import syntax as s
from gradlint.python.calls import Arguments
from gradlint.python.evaluate import Evaluator
from gradlint.python.frame import Frame
from gradlint.python.values import Class, Collection, Constant, Enough, External, Rest, Turns, Value
from gradlint.records import dataclass
from tests.paths.tracing import program


@dataclass(frozen=True, slots=True)
class Text(Value):
    """What is not known, by what it is called."""

    text: str

    def signature(self) -> object:
        return self


class Texts:
    """Knows nothing, and says what it was asked."""

    core: Evaluator

    def unknown(self, name: str) -> Value:
        return Text(name)

    def parameter(self, param: s.Param, given: Value | None, default: Value | None, frame: Frame) -> Value:
        return given or default or Text(param.name)

    def attribute(self, base: Value, expr: s.Attr) -> Value | None:
        return Text(f"{base.text}.{expr.name}") if isinstance(base, Text) else None

    def call(self, callee: Value, node: s.Call, given: Arguments[Value]) -> Value:
        if isinstance(callee, Class):
            return self.core.objects.make(callee, given)
        name = callee.dotted if isinstance(callee, External) else s.render(node.func)
        return Text(f"{name}({', '.join(map(shown, given.every))})")

    def method(self, base: Value, name: str, node: s.Call, given: Arguments[Value]) -> Value:
        return Text(f"{shown(base)}.{name}({', '.join(map(shown, given.every))})")

    def operate(self, expr: s.Expr, values: list[Value]) -> Value:
        known = self.core.folded(expr, values)
        return known or Text(" ? ".join(map(shown, values)))

    def item(self, base: Value, index: Value | None, expr: s.Expr) -> Value:
        return Text(f"{shown(base)}[]")

    def iterate(self, value: Value, target: s.Expr | None) -> Turns:
        known = isinstance(value, Collection) and value.whole
        return Turns(value.items, whole=True) if isinstance(value, Collection) and known else Turns([Text("any")])

    def join(self, one: Value, other: Value) -> Value:
        return one if one.signature() == other.signature() else Text(f"{shown(one)} or {shown(other)}")

    def truth(self, value: Value, node: s.If | s.IfExp | s.Comprehension) -> bool | None:
        return bool(value.value) if isinstance(value, Constant) else None

    def store(
        self, target: s.Expr | s.Return | s.Assign, base: Value | None, value: Value, source: s.Expr | None = None
    ) -> Value:
        return value

    def enter(self, frame: Frame, caller: Frame) -> object:
        return None


def shown(value: Value) -> str:
    match value:
        case Text():
            return value.text
        case Constant():
            return repr(value.value)
        case External():
            return value.dotted
        case Rest():
            return f"*{shown(value.value)}"
        case Collection():
            return (
                "["
                + ", ".join([*map(shown, value.items), *(f"{k}={shown(v)}" for k, v in value.entries.items())])
                + "]"
            )
        case _:
            return type(value).__name__


def _evaluator(code: str, budget: int = 10_000, domain: Texts | None = None) -> Evaluator:
    read, domain = program(code), domain or Texts()
    domain.core = Evaluator(read, domain, joined.Joined(), budget=budget, depth=5)
    joined.run(domain.core, read.body)
    return domain.core


def _value(code: str, name: str = "x") -> str:
    return shown(_evaluator(code).module.names[name])


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("x = 2 * 3 + 1", "7"),
        ("x = 1 < 2", "True"),
        ("x = [1] * 3", "[1, 1, 1]"),
        ("x = [1, *[2, 3]]", "[1, 2, 3]"),
        ("x = [1, *more]", "[1, *more]"),
        ("x = [1, 2, 3][-1]", "3"),
        ("x = [1, 2, 3][1:]", "[2, 3]"),
        ("x = {'a': 1}['a']", "1"),
        ("x = dict['a']", "builtins.dict[]"),
        ("x = 1 if flag else 2", "1 or 2"),
        ("x = 1 if 0 else 2", "2"),
        ("x = a or b", "a or b"),
        ("x = [n + 1 for n in (1, 2)]", "[2, 3]"),
        ("x = [n + 1 for n in (1, 0) if n]", "[2]"),
        ("x = [n + 1 for n in (1, 2) if flag]", "[*2 or 3]"),
        ("x = [f(n) for n in () if n]", "[]"),
        ("x = [f(n) for n in many]", "[*f(any)]"),
        ("x = (y := 3) + y", "6"),
    ],
)
def test_expressions(code: str, value: str) -> None:
    assert _value(code) == value


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("a, x = 1, 2", "2"),
        ("a, x = pair", "pair[]"),
        ("x = [1]\nx += [2]", "[1, 2]"),
        ("x = [1]\ny = x\ny.append(2)", "[1, 2]"),
        ("x = {}\nx['a'] = 1", "[a=1]"),
        ("x = [1, 2]\nx[0] = 3", "[3, 2]"),
        ("x = [1, 2]\nx[i] = 3", "[*1 or 2 or 3]"),
        ("x = [1, 2]\ndel x[-1]", "[1]"),
        ("x = 1\nif flag:\n    x = 2", "2 or 1"),
        ("x = [1]\nif flag:\n    x.append(2)", "[1, *2]"),
        ("x = [1]\nif flag:\n    x.append(2)\n    raise Error", "[1]"),
        ("x = []\nfor n in (1, 2):\n    x.append(n)", "[1, 2]"),
        ("x = []\nfor n in many:\n    x.append(n)", "[*any, *any]"),
        ("try:\n    from fast import op as x\nexcept ImportError:\n    x = None", "fast.op"),
        ("try:\n    x = 1\nexcept Error:\n    x = 2", "1 or 2"),
    ],
)
def test_assignments(code: str, value: str) -> None:
    assert _value(code) == value


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("def f(a, b=2, *c, **d):\n    return [a, b, c, d]\nx = f(1, 3, 4, e=5)", "[1, 3, [4], [e=5]]"),
        ("def f(a, b=2):\n    return [a, b]\nx = f(b=1)", "[a, 1]"),
        ("def f(a, b=1):\n    return b\nx = f(**options)", "b"),
        ("def f(a):\n    return f(a)\nx = f(1)", "f(1)"),
        ("def f(a):\n    if a:\n        return 1\n    return 2\nx = f(flag)", "1 or 2"),
        ("def f():\n    y = 1\n    def g():\n        return y\n    return g()\nx = f()", "1"),
        ("x = (lambda a: a + 1)(2)", "3"),
        ("def f(): ...\nx = f()", "None"),
    ],
)
def test_functions(code: str, value: str) -> None:
    assert _value(code) == value


CLASSES = """
class Base:
    size = 3
    def __init__(self, n):
        self.n = n
    def get(self):
        return self.n
class Sub(Base):
    def __init__(self, n, m):
        super().__init__(n)
        self.m = m
    @property
    def both(self):
        return [self.n, self.m]
    @staticmethod
    def twice(a):
        return a * 2
    def get(self):
        return [super().get()]
    def __call__(self, a):
        return a
"""


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("Sub(1, 2).both", "[1, 2]"),
        ("Sub(1, 2).get()", "[1]"),
        ("Sub(1, 2).twice(4)", "8"),
        ("Sub(1, 2)(5)", "5"),
        ("Sub(1, 2).size", "3"),
        ("Base.size", "3"),
        ("Base.get(Sub(1, 2))", "1"),
        ("Sub(1, 2).fit(3)", "Instance.fit(3)"),
    ],
)
def test_classes(expression: str, value: str) -> None:
    assert _value(f"{CLASSES}\nx = {expression}") == value


UPDATE = "class Optimizer:\n    def update(self, v):\n        return 1\n"
TWO_LOGS = """
def f():
    from a import log
    return log(1)
def g():
    from b import log
    return log(1)
"""


@pytest.mark.parametrize(
    ("code", "value"),
    [
        # a method is no function of the file, whoever has it
        (
            "class Optimizer:\n    def update(self, v):\n        return 1\nx = self.meter.update(3)",
            "self.meter.update(3)",
        ),
        ("class Optimizer:\n    def update(self, v):\n        return 1\nx = update(3)", "update(3)"),
        # two functions that import one name from two modules get two things
        (f"{TWO_LOGS}x = [f(), g(), log(1)]", "[a.log(1), b.log(1), log(1)]"),
        # a parameter hides an import, a local a class
        ("import torch\ndef f(torch):\n    return torch.log(1)\nx = f(other)", "other.log(1)"),
        ("class Net:\n    def __init__(self): ...\ndef f():\n    Net = make\n    return Net(1)\nx = f()", "Net(1)"),
        ("def f():\n    def log(a):\n        return 1\nx = log(2)", "log(2)"),
    ],
)
def test_names_mean_what_their_scope_says(code: str, value: str) -> None:
    assert _value(code) == value


def test_contexts_hold_inside() -> None:
    code = """
import torch
def off():
    return 1
@torch.no_grad()
def f():
    off()
with torch.no_grad():
    off()
with timer("no_grad_probe"):
    off()
f()
"""
    seen: list[bool] = []

    class Watching(Texts):
        def enter(self, frame: Frame, caller: Frame) -> object:
            if frame.function is not None and frame.function.name == "off":
                seen.append(frame.no_grad)
            return len(seen)  # another state: nothing is remembered

    _evaluator(code, domain=Watching())
    assert seen == [True, False, True]


def test_a_budget_ends() -> None:
    with pytest.raises(Enough):
        _evaluator("x = 1\nx = f(1)\nx = 2", budget=3)
