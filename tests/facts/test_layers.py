"""How many saturating activations a model strings together, in the many ways in which models are written."""

from __future__ import annotations

import ast
import textwrap

import pytest

from gradlint.facts.layers import saturating_stacks
from gradlint.python.lower import Lowering
from gradlint.python.module import Module

MADE_BY_A_METHOD = """\
return self.step(self.step(self.step(x)))
def step(self, x):
    return self.a(x).tanh()
def make(self):
    self.a = nn.Linear(1, 1)
"""
HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


def _counts(code: str) -> list[int]:
    program = Module(Lowering(ast.parse(HEAD + textwrap.dedent(code))).body)
    return sorted(len(stack.hidden) for stack in saturating_stacks(program))


def _model(init: str, forward: str, head: str = "self") -> str:
    return (
        "class Net(nn.Module):\n"
        f"    def __init__({head}):\n        super().__init__()\n"
        + textwrap.indent(textwrap.dedent(init).strip(), " " * 8)
        + "\n    def forward(self, x):\n"
        + textwrap.indent(textwrap.dedent(forward).strip(), " " * 8)
        + "\n"
    )


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("nn.Sequential(nn.Linear(1, 1), nn.Tanh(), nn.Linear(1, 1))", 1),
        ("nn.Sequential(nn.Linear(1, 1), nn.Tanh(), nn.Dropout(), nn.Linear(1, 1), nn.Sigmoid(), nn.Linear(1, 1))", 2),
        ("nn.Sequential(*[nn.Linear(1, 1), nn.Tanh()] * 5, nn.Linear(1, 1))", 5),
        ("nn.Sequential(*(x for _ in range(3) for x in (nn.Linear(1, 1), nn.Tanh())), nn.Linear(1, 1))", 3),
        ("nn.Sequential(nn.Sequential(nn.Linear(1, 1), nn.Tanh()), nn.Sequential(nn.Tanh(), nn.Linear(1, 1)))", 1),
        ("a = []\nfor i in range(4):\n    a += [nn.Linear(1, 1), nn.Tanh()]\nnn.Sequential(*a, nn.Linear(1, 1))", 4),
        ("net = nn.Sequential()\nfor i in range(3):\n    net.append(nn.Linear(1, 1))\n    net.append(nn.Tanh())", 2),
    ],
)  # fmt: skip
def test_sequential(code: str, count: int) -> None:
    assert _counts(code) == [count]


@pytest.mark.parametrize(
    ("init", "forward", "count"),
    [
        ("self.a, self.b = nn.Linear(1, 1), nn.Linear(1, 1)", "return self.b(torch.tanh(self.a(x)))", 1),
        ("self.a = nn.Linear(1, 1)\nself.act = torch.tanh", "return self.a(self.act(self.a(self.act(self.a(x)))))", 2),
        ("self.layers = nn.ModuleList(nn.Linear(1, 1) for _ in range(6))",
         "for layer in self.layers[:-1]:\n    x = layer(x).sigmoid()\nreturn self.layers[-1](x)", 5),
        ("self.layers = nn.ModuleList(nn.Linear(1, 1) for _ in range(6))",
         "for i in range(len(self.layers)):\n    x = F.tanh(self.layers[i](x))\nreturn x", 5),
        ("self.make()", MADE_BY_A_METHOD, 2),
    ],
)  # fmt: skip
def test_forward(init: str, forward: str, count: int) -> None:
    forward, _, rest = forward.partition("\ndef ")
    code = _model(init, forward) + textwrap.indent(f"def {rest}" if rest else "", " " * 4)
    assert _counts(code) == [count]


def test_the_number_of_the_call_counts_before_the_default() -> None:
    init = "self.net = nn.Sequential(*[nn.Linear(1, 1), nn.Tanh()] * n, nn.Linear(1, 1))"
    code = _model(init, "return self.net(x)", head="self, n=6")
    assert _counts(code) == [6]
    assert _counts(code + "Net(2)\n") == [2]
    assert _counts(code + "Net(2)\nNet(3)\n") == [3]
    assert _counts(code + "def main(a, b):\n    Net(a)\n    Net(b)\n") == []
    assert _counts(code + "Net(**options)\n") == []
    build = "def build(n=6):\n    return nn.Sequential(*[nn.Linear(1, 1), nn.Tanh()] * n, nn.Linear(1, 1))\n"
    assert _counts(build) == [6]
    assert _counts(build + "def main():\n    build(2)\n") == [2]
    assert _counts(build + "def main(depth):\n    build(depth)\n") == []


@pytest.mark.parametrize(
    "code",
    [
        "nn.Sequential(nn.Linear(1, 1), nn.Tanh())",
        "nn.Sequential(nn.Tanh(), nn.Linear(1, 1))",
        "nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1), nn.Tanh(), nn.Linear(1, 1))",
        "nn.Sequential(nn.Linear(1, 1), nn.Tanh(), nn.LayerNorm(1), nn.Linear(1, 1))",
        "nn.Sequential(nn.Linear(1, 1), nn.Tanh() if smooth else nn.ReLU(), nn.Linear(1, 1))",
        "nn.Sequential(nn.utils.weight_norm(nn.Linear(1, 1)), nn.Tanh(), nn.Linear(1, 1))",
        "from elsewhere import Linear\nnn.Sequential(Linear(1, 1), nn.Tanh(), Linear(1, 1))",
        "nn.Sequential(*layers, nn.Tanh(), nn.Linear(1, 1))",
        _model("self.a = nn.Linear(1, 1)", "return self.a(x + torch.tanh(self.a(x)))"),
        _model("self.a = nn.Linear(1, 1)", "return self.a(x * torch.sigmoid(self.a(x)))"),
        _model("self.a = nn.Linear(1, 1)", "return self.a(torch.cat([x, torch.tanh(self.a(x))]))"),
        _model("self.a = nn.Linear(1, 1)", "x = self.a(x)\nif self.norm:\n    x = norm(x)\nreturn self.a(x.tanh())"),
        _model("self.a = nn.Linear(1, 1)", "return self(torch.tanh(self.a(x)))"),
    ],
)
def test_what_is_no_stack(code: str) -> None:
    assert _counts(code) == []


def test_an_activation_of_the_output_is_not_alone() -> None:
    init = "self.a, self.act = nn.Linear(1, 1), nn.Tanh()"
    for forward, alone in (("self.a(self.act(self.a(x)))", True), ("self.act(self.a(self.act(self.a(x))))", False)):
        body = Lowering(ast.parse(HEAD + _model(init, f"return {forward}"))).body
        assert [stack.alone for stack in saturating_stacks(Module(body))] == [alone]


def test_a_file_with_too_much_to_follow_is_left_alone() -> None:
    wide = "    self.net = nn.Sequential(*[nn.Linear(1, 1), nn.Tanh()] * 5, nn.Linear(1, 1))\n"
    loops = "".join(f"{' ' * (4 + 4 * n)}for _ in range(60):\n" for n in range(4)) + " " * 20 + "x = x + 1\n"
    code = f"class Net(nn.Module):\n  def __init__(self):\n    x = 0\n{wide}"
    assert _counts(code) == [5]
    assert _counts(code + loops) == []


def test_names_mean_what_their_scope_says() -> None:
    build = "def build(n=6):\n    return nn.Sequential(*[nn.Linear(1, 1), nn.Tanh()] * n, nn.Linear(1, 1))\n"
    assert _counts(build + "def main(depth):\n    meter.build(depth)\n") == [6]
    assert _counts(build + "def main(depth):\n    build(depth)\n") == []
    layer = "def f():\n    from elsewhere import Linear\n    return nn.Sequential(Linear(1), nn.Tanh(), Linear(1))\n"
    assert _counts(f"from torch.nn import Linear\n{layer}") == []
