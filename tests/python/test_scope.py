"""All the values that a name may have, and the function that it has them in."""

from __future__ import annotations

import pytest

from gradlint.python import syntax as s
from gradlint.python.classes import Classes
from gradlint.python.scope import Scope, Scopes
from tests.paths.tracing import program


def _at(code: str) -> tuple[Scopes, s.Expr, Scope]:
    """The index, what the call `look(…)` is given, and where it stands."""
    scopes = Scopes(program(code))
    ((call, home),) = scopes.calls["look"]
    return scopes, call.args[0], home


def _values(code: str) -> list[str] | None:
    """What the name that `look(…)` is given may be."""
    scopes, name, home = _at(code)
    found = scopes.bindings(s.render(name), home)
    return None if found is None else [s.render(x.value) for x in found[0]]


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("a = f()\na = g()\nlook(a)", ["f()", "g()"]),
        ("a = f()\ndef h():\n    look(a)", ["f()"]),
        ("a = f()\ndef h():\n    a = g()\n    look(a)", ["g()"]),
        ("a, b = f(), g()\nlook(b)", ["g()"]),
        ("a, b = f()\nlook(b)", ["f()"]),
        ("a, *b = f(), g()\nlook(b)", ["(f(), g())"]),
        ("a = []\na.append(f())\nlook(a)", ["[]", "f()"]),
        ("a = {}\na['x'] = f()\nlook(a)", ["{}", "f()"]),
        ("def h(a):\n    look(a)", None),
        ("look(a)", None),
    ],
)
def test_bindings(code: str, values: list[str] | None) -> None:
    assert _values(code) == values


@pytest.mark.parametrize(
    ("code", "handed"),
    [
        ("def h(a, b):\n    look(b)\nh(1, 2)\nh(b=3, a=4)", ["2", "3"]),
        ("def h(*a, b):\n    look(b)\nh(1, b=2)", ["2"]),
        ("class C:\n    def __init__(self, a):\n        look(a)\nC(1)", ["1"]),
        ("class C:\n    def h(self, a):\n        look(a)\nC().h(1)", ["1"]),
        ("def h(a):\n    def inner():\n        look(a)\nh(1)", ["1"]),
        ("def h(a):\n    look(a)\nh(*rest)", []),
        ("class C:\n    @classmethod\n    def h(kind, a):\n        look(a)\nC.h(1)", ["1"]),
        ("class C:\n    @staticmethod\n    def h(a):\n        look(a)\nC.h(1)", ["1"]),
        ("class C:\n    def h(this, a):\n        look(a)\nC.h(C(), 1)", ["1"]),
        # a call of the same name is one of another function
        ("class C:\n    def h(self, a):\n        look(a)\nclass D:\n    def h(self, a): ...\nD().h(1)", []),
        ("class C:\n    def update(self, a):\n        look(a)\nmeter.update(1)", []),
        ("def h(a):\n    look(a)\ndef g(h):\n    h(1)", []),
        ("def h(a):\n    look(a)\ndef g():\n    from other import h\n    h(1)", []),
    ],
)
def test_handed(code: str, handed: list[str]) -> None:
    scopes, name, home = _at(code)
    assert [s.render(value) for value, _ in scopes.handed(s.render(name), home)] == handed


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("from lib import Trainer\nlook(Trainer)", "lib.Trainer"),
        ("def h():\n    from lib import Trainer\n    look(Trainer)", "lib.Trainer"),
        ("look(Trainer)", "Trainer"),  # a fragment without imports
        ("class Trainer: ...\nlook(Trainer)", "Trainer"),
        ("def h(Trainer):\n    look(Trainer)", ""),
        ("def h(lib):\n    look(lib.Trainer)", ""),
        ("from lib import Trainer\ndef h(Trainer):\n    look(Trainer)", ""),
        ("Trainer = pick()\nlook(Trainer)", ""),
        ("def h():\n    from lib import Trainer\ndef g():\n    look(Trainer)", "Trainer"),
        ("class C:\n    from lib import Trainer\n    def h(self):\n        look(Trainer)", "Trainer"),
        ("from lib import Trainer\nrun(lambda Trainer: look(Trainer))", ""),
    ],
)
def test_the_full_name_of_what_is_meant(code: str, name: str) -> None:
    scopes, given, scope = _at(code)
    assert scopes.dotted(given, scope) == name


def test_an_attribute_is_that_of_the_nearest_class() -> None:
    code = """
        class Base:
            def __init__(self):
                self.a = f()
                self.b = f()

        class Net(Base):
            def build(self):
                self.b = g()
    """
    scopes = Scopes(program(code))
    net = scopes.program.classes["Net"]
    classes = scopes.program.once(Classes)
    found = {name: [s.render(x.value) for x, _ in classes.attribute(net, name)] for name in "abc"}
    assert found == {"a": ["f()"], "b": ["g()"], "c": []}


@pytest.mark.parametrize(
    ("code", "quiet"),
    [
        ("with torch.no_grad():\n    a = f()\nlook(a)", True),
        ("with torch.enable_grad():\n    a = f()\nlook(a)", False),
        ("@torch.no_grad()\ndef h():\n    a = f()\n    look(a)", True),
        ("with torch.no_grad():\n    pass\na = f()\nlook(a)", False),
        ("with torch.no_grad():\n    with torch.enable_grad():\n        a = f()\nlook(a)", False),
    ],
)
def test_under_no_grad(code: str, quiet: bool) -> None:
    scopes, name, home = _at(f"import torch\n{code}")
    found = scopes.bindings(s.render(name), home)
    assert found is not None
    assert [x.quiet for x in found[0]] == [quiet]


@pytest.mark.parametrize(
    ("code", "mixed"),
    [
        ("model = Wrapper(backbone)", True),
        ("model.head = backbone.fc", True),
        ("model.add_module('b', backbone)", True),
        ("model = copy.deepcopy(backbone)", False),
        ("model.load_state_dict(backbone.state_dict())", False),
        ("model = Net()\nother = Net(backbone)", False),
    ],
)
def test_who_gets_whom(code: str, mixed: bool) -> None:
    assert Scopes(program(code)).mixes(frozenset({"model"}), frozenset({"backbone"})) is mixed
