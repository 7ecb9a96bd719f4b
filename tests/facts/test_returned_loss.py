"""The divisions of a loss that a method returns, and not those of what it logs."""

from __future__ import annotations

import textwrap

import pytest

from gradlint.facts.settings import divisions, multiplies
from gradlint.python import syntax as s
from tests.paths.tracing import program


def _method(body: str) -> s.Def:
    (method,) = program(f"def step(self, batch):\n{textwrap.indent(body, '    ')}").body
    assert isinstance(method, s.Def)
    return method


@pytest.mark.parametrize(
    "body",
    [
        "return loss / n",
        "loss = loss / n\nreturn loss",
        "loss /= n\nreturn loss",
        "loss = f(batch) / n\nreturn loss, outputs",
        "return {'loss': loss / n, 'size': size}",
        "return (loss / n).mean()",
        "return (loss / n) * weight",
        "return loss / n if train else loss",
    ],
)
def test_divided(body: str) -> None:
    assert [s.render(x.divisor) for x in divisions(_method(body))] == ["n"]


@pytest.mark.parametrize(
    "body",
    [
        "self.log(loss / n)\nreturn loss",
        "logged = loss / n\nreturn loss",
        "return loss + penalty / n",  # only a term of it
        "def inner():\n    return loss / n\nreturn loss",
        "loss = loss\nreturn loss",
    ],
)
def test_not_divided(body: str) -> None:
    assert list(divisions(_method(body))) == []


def test_a_factor_may_undo_it() -> None:
    assert multiplies(_method("total += loss * self.n\nreturn loss / self.n"), "n")
    assert multiplies(_method("loss *= n"), "n")
    assert not multiplies(_method("return loss / n"), "n")
