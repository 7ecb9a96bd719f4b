"""A call is of the function that its name means where it stands, and of no other one of that name."""

from __future__ import annotations

import pytest

from gradlint.python import syntax as s
from tests.paths.tracing import program

FILE = """
from elsewhere import update as imported, Base

def update(x): ...

class Meter:
    def update(self, v): ...
    def average(self):
        return self.update(0)

class Noisy(Meter):
    def update(self, v): ...
    def twice(self):
        super().update(1)

class Trainer:
    def __init__(self):
        self.meter = Noisy()
        self.go = lambda: update(self)
    def __call__(self): ...
    def fit(self): ...
    def reset(self):
        {method}

class Derived(Base):
    def fit(self): ...

def make():
    return Trainer()

def other():
    from somewhere import update
    update(1)

def typed(trainer: Trainer, anything):
    {typed}

def given(one):
    {given}

meter = Meter()
advance = partial(update, 1)
either = Meter() if quiet else Noisy()
{call}
given(meter)
"""


def _callees(place: str, call: str) -> list[str]:
    """The functions, with the rows of their definitions, that the call leads to."""
    places = dict.fromkeys(("method", "typed", "given", "call"), "pass") | {place: call}
    parsed = program(FILE.format(**places))
    (found,) = [c for c in parsed.calls() if s.render(c) == call]
    methods = {id(d): cls.name for cls in parsed.classes.values() for d in cls.body}
    return sorted(f"{methods.get(id(d), '')}.{d.name}".lstrip(".") for d in parsed.callees.of(found))


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        ("update(2)", ["update"]),
        ("imported(2)", []),
        ("anything.update(2)", []),
        ("meter.update(2)", ["Meter.update", "Noisy.update"]),
        ("Noisy().update(2)", ["Noisy.update"]),
        ("either.update(3)", ["Meter.update", "Noisy.update"]),
        ("Meter.update(meter, 2)", ["Meter.update", "Noisy.update"]),
        ("advance()", ["update"]),
        ("run(update)", ["update"]),
        ("run(meter.average)", ["Meter.average"]),
        ("make().fit()", ["Trainer.fit"]),
        ("make()()", ["Trainer.__call__"]),
        ("Trainer(1)", ["Trainer.__call__", "Trainer.__init__"]),
        ("Derived().fit(2)", ["Derived.fit"]),
        ("make().meter.update(5)", ["Noisy.update"]),
        ("make().go()", ["update"]),
        ("print(meter)", []),
    ],
)
def test_in_the_module(call: str, meant: list[str]) -> None:
    assert _callees("call", call) == meant


@pytest.mark.parametrize(
    ("place", "call", "meant"),
    [
        ("method", "self.fit()", ["Trainer.fit"]),
        ("method", "self.meter.update(7)", ["Noisy.update"]),
        ("typed", "trainer.fit()", ["Trainer.fit"]),
        ("typed", "anything.fit()", []),
        ("given", "one.update(4)", ["Meter.update", "Noisy.update"]),
    ],
)
def test_in_a_function(place: str, call: str, meant: list[str]) -> None:
    assert _callees(place, call) == meant


def test_a_function_that_imports_the_name_means_what_it_imports() -> None:
    parsed = program(FILE.format(method="pass", typed="pass", given="pass", call="pass"))
    (call,) = [c for c in parsed.calls() if s.render(c) == "update(1)"]
    assert parsed.callees.of(call) == ()
    assert parsed.dotted(call.func) == "somewhere.update"
    (plain,) = [c for c in parsed.calls() if s.render(c) == "update(self)"]
    assert parsed.dotted(plain.func) == "update"


def test_super_means_the_method_of_a_base() -> None:
    parsed = program(FILE.format(method="pass", typed="pass", given="pass", call="pass"))
    (call,) = [c for c in parsed.calls() if s.render(c) == "super().update(1)"]
    (found,) = parsed.callees.of(call)
    assert found is parsed.classes["Meter"].body[0]


@pytest.mark.parametrize("text", ["a = b\nb = a\na()\n", "def f(x):\n    f(x.y)\n    x.go()\n", "x = x.y\nx.go()\n"])
def test_what_stands_for_itself_is_nothing(text: str) -> None:
    parsed = program(text)
    assert [d.name for call in parsed.calls() for d in parsed.callees.of(call)] in ([], ["f"])


def test_self_is_known_however_far_a_parameter_was_handed_on() -> None:
    """What is handed on is looked for in callers of callers; what was asked too deep on the way was nothing."""
    many = 250
    methods = "".join(
        f"    def m{n}(self, x):\n        x.go()\n        self.m{(n + 1) % many}(x)\n        self.m{n * 7 % many}(x)\n"
        for n in range(many)
    )
    parsed = program(f"class Trainer:\n{methods}")
    found = {name: {d.name for d in parsed.callees.under(d.body)} for name, (d,) in parsed.functions.items()}
    assert found == {f"m{n}": {f"m{(n + 1) % many}", f"m{n * 7 % many}"} for n in range(many)}
