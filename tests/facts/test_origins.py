"""What flows into a value, as far as gradients go through it."""

from __future__ import annotations

import pytest

from gradlint.facts.origins import Origins
from gradlint.python import syntax as s
from gradlint.python.scope import Scopes
from tests.paths.tracing import program


def _made_of(code: str) -> set[str]:
    """The names that flow into what `look(…)` is given."""
    scopes = Scopes(program(f"import torch\n{code}"))
    ((call, home),) = scopes.calls["look"]
    return {part.id for part, _ in Origins(scopes).of(call.args[0], home) if isinstance(part, s.Name)}


@pytest.mark.parametrize(
    "code",
    [
        "b = source * 2\nlook(b + 1)",
        "a, b = rest, source\nlook(b)",
        "def f(x):\n    look(x)\nf(source)",
        "def f():\n    return source\nlook(f())",
        "class C:\n    def update(self):\n        return source\nc = C()\nlook(c.update())",
        "class C:\n    def f(self):\n        return source\n    def g(self):\n        look(self.f())",
        "total = []\ntotal.append(source)\nlook(sum(total))",
        "class C:\n    def __init__(self):\n        self.a = source\n    def f(self):\n        look(self.a)",
    ],
)
def test_followed(code: str) -> None:
    assert "source" in _made_of(code)


@pytest.mark.parametrize(
    "code",
    [
        "look(source.detach() + a)",
        "b = source.item()\nlook(b)",
        "with torch.no_grad():\n    b = source\nlook(b)",
        "b = source\nwith torch.no_grad():\n    b = other\nlook(b)",  # the last one before the use is data
        "def f():\n    b = source\ndef g():\n    look(b)",
        # names that only sound the same
        "class C:\n    def update(self):\n        return source\nlook(meter.update())",
        "class C:\n    def update(self):\n        return source\nlook(update())",
        "def f():\n    return source\ndef g(f):\n    look(f())",
        "def f():\n    return source\ndef g():\n    from elsewhere import f\n    look(f())",
        "def f():\n    def g():\n        return source\nlook(g())",
    ],
)
def test_cut_off(code: str) -> None:
    assert "source" not in _made_of(code)


def test_names_that_go_round_in_a_circle_end() -> None:
    assert _made_of("a = b\nb = a\nlook(a)") == {"a", "b"}
