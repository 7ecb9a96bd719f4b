"""The file as a whole: what names mean, and which words stand where."""

from __future__ import annotations

import ast

import pytest

from gradlint.python import syntax as s
from gradlint.python.callees import components
from gradlint.python.lower import Lowering
from gradlint.python.module import Module, Words
from gradlint.python.usage import Use
from tests.paths.tracing import program


def _dotted(source: str) -> str:
    """The dotted name of the last expression of a file."""
    parsed = program(source)
    last = parsed.body[-1]
    assert isinstance(last, s.ExprStmt)
    return parsed.dotted(last.value.func if isinstance(last.value, s.Call) else last.value)


CLIP = "torch.nn.utils.clip_grad_norm_"


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.nn.utils.clip_grad_norm_(p, 1)",
        "import torch as t\nt.nn.utils.clip_grad_norm_(p, 1)",
        "import torch.nn.utils\ntorch.nn.utils.clip_grad_norm_(p, 1)",
        "import torch.nn.utils as U\nU.clip_grad_norm_(p, 1)",
        "import torch.nn as nn\nnn.utils.clip_grad_norm_(p, 1)",
        "from torch import nn\nnn.utils.clip_grad_norm_(p, 1)",
        "from torch.nn import utils as u\nu.clip_grad_norm_(p, 1)",
        "from torch.nn.utils import clip_grad_norm_\nclip_grad_norm_(p, 1)",
        "from torch.nn.utils import clip_grad_norm_ as clip\nclip(p, 1)",
        "try:\n    from torch.nn.utils import clip_grad_norm_ as clip\nexcept ImportError:\n    pass\nclip(p, 1)",
        "if new:\n    from torch.nn.utils import clip_grad_norm_ as clip\nclip(p, 1)",
        "clip_grad_norm_(p, 1)",  # a fragment without imports
        "nn.utils.clip_grad_norm_(p, 1)",
    ],
)
def test_a_name_is_followed_through_the_imports(source: str) -> None:
    assert _dotted(source) == CLIP


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from mylib import clip_grad_norm_\nclip_grad_norm_(p)", "mylib.clip_grad_norm_"),
        ("from .utils import clip_grad_norm_\nclip_grad_norm_(p)", ".utils.clip_grad_norm_"),
        ("import jax.nn as nn\nnn.relu(x)", "jax.nn.relu"),
        ("model.train()", "model.train"),
        ("f(x).y()", ""),
        ("x[0].y()", ""),
        ("def clip_grad_norm_(p):\n    pass\nclip_grad_norm_(p)", "clip_grad_norm_"),
        ("class GradScaler:\n    pass\nGradScaler()", "GradScaler"),
    ],
)
def test_other_names_stay_what_they_are(source: str, name: str) -> None:
    assert _dotted(source) == name


def test_calls_come_in_the_order_of_their_statements() -> None:
    parsed = program("a()\nfor x in b():\n    c(d())\ndef f():\n    e()\n")
    assert [s.render(call) for call in parsed.calls()] == ["a()", "b()", "c(d())", "d()", "e()"]


def test_words_reach_through_the_functions_of_the_file() -> None:
    parsed = program(
        """
        def inner(loss):
            loss.backward()
        def outer(loss):
            inner(loss)
        def loop(loss):
            outer(loss)
        """
    )
    words = parsed.words(_function(parsed, "loop").body)
    assert words.backward
    assert words.events
    assert not words.steps


def test_words_of_functions_that_call_each_other_end() -> None:
    parsed = program("def a():\n    b()\n    opt.step()\ndef b():\n    a()\n")
    assert parsed.words(_function(parsed, "b").body).steps


def test_jumps_of_inner_functions_are_their_own() -> None:
    parsed = program("def a():\n    def b():\n        return 1\n    x = b()\ndef c():\n    if x:\n        raise E\n")
    assert parsed.words(_function(parsed, "a").body).jumps == set()
    assert parsed.words(_function(parsed, "c").body).jumps == {"raise"}


@pytest.mark.parametrize("text", ["(i + 1) % accum == 0", "i % args.accum == 0", "i % self.cfg.accum == 0"])
def test_the_size_of_a_window_is_known_by_its_name(text: str) -> None:
    assert "accum" in program(f"if {text}:\n    f()\n").usage.texts(Use.MODULUS)


def test_formatting_with_a_percent_sign_is_no_modulus() -> None:
    assert program("print('%d of %d' % (done, total))\n").usage.texts(Use.MODULUS) == set()


def _function(parsed: Module, name: str) -> s.Def:
    return parsed.functions[name][0]


def test_what_leads_to_each_other_comes_together_behind_what_it_leads_to() -> None:
    edges = {1: [2], 2: [3, 4], 3: [2], 4: [], 5: [5, 1]}
    assert list(components(edges)) == [{4}, {2, 3}, {1}, {5}]
    assert list(components({1: [2], 2: [3], 3: [1]})) == [{1, 2, 3}]


@pytest.mark.slow
def test_a_long_chain_of_calls_is_no_recursion() -> None:
    long = 20_000
    assert sum(1 for _ in components({n: [n + 1] if n + 1 < long else [] for n in range(long)})) == long


def test_functions_that_call_each_other_share_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, the words of each were added to those of each, again and again: the third power of their number."""
    added: list[int] = []
    add = Words.add_behind

    def counted(self: Words, other: Words) -> None:
        added.append(1)
        add(self, other)

    def additions(count: int) -> int:
        text = "".join(
            f"def f{n}():\n    f{(n + 1) % count}()\n    f{(n * 7) % count}()\n    optimizer.step(x)\n\n"
            for n in range(count)
        )
        program = Module(Lowering(ast.parse(text + "def last():\n    f0()\n    loss.backward()\n")).body)
        added.clear()
        words = [program.words_of(_function(program, f"f{n}")) for n in range(count)]
        assert all(w is words[0] for w in words)
        assert words[0].called == {"step"}
        last = program.words_of(_function(program, "last"))
        assert last.called == {"step", "backward"}
        return len(added)

    monkeypatch.setattr(Words, "add_behind", counted)
    assert additions(80) <= 2.3 * additions(40)
