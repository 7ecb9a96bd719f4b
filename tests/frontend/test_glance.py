"""The look at the bytes holds back files without numerics near a loss, and never one with them."""

from __future__ import annotations

import pytest

from gradlint.frontend.bytescan import worth_reading
from gradlint.frontend.glance import may_hold_divisions, may_hold_numerics, may_hold_stack

TORCH = b"import torch\nfrom torch import nn\n"


@pytest.mark.parametrize(
    "source",
    [
        b"def my_loss(p):\n    return torch.log(p)\n",
        b"loss = p.log().mean()\n",
        b"loss = (x ** 2).sum() ** 0.5\n",
        b"loss = torch.pow((x ** 2).sum(), 0.5)\n",
        b"class MyLoss(nn.Module):\n    def forward(self, p):\n        return p.log2()\n",
        b"def helper(p):\n    return torch.log(p)\n\ndef train(p):\n    loss = helper(p)\n",
        b"loss = torch.log(p + 1e-8) + torch.log(1 - p)\n",  # one of two is guarded
        b"loss = torch.log(p) + 1e-8\n",  # the guard is behind the logarithm
        b"loss = torch.sqrt(torch.clamp(x ** 2, min=0))\n",  # a clamp at 0 guards no root
        b"from torch import log\nloss = -log(p)\n",
        b"loss = torch.exp(logits)\n",
        b"loss = torch.log(torch.exp(x).sum())\n",
        b"loss = F.cross_entropy(x.softmax(1), y)\n",
        b"net = nn.Sequential(nn.Linear(2, 2), nn.Softmax(1))\nloss = nn.CrossEntropyLoss()(net(x), y)\n",
        b"def head(x):\n    return F.softmax(x, 1)\n\ndef train(x):\n    loss = F.cross_entropy(head(x), y)\n",
        b"loss = nn.BCELoss()(torch.sigmoid(x), y)\n",
    ],
)
def test_files_with_numerics_near_a_loss_are_let_in(source: bytes) -> None:
    assert may_hold_numerics(TORCH + source)


@pytest.mark.parametrize(
    "source",
    [
        b"x = torch.log(p)\n",  # no loss in sight
        b"loss = model(x)\n",
        b"loss = torch.log(p + 1e-8)\n",
        b"loss = math.sqrt(d) + np.log(2)\n",
        b"def my_loss(x):\n    return x.mean()\n\ndef positions(x):\n    return torch.log(x)\n",
        b"attn_weights = F.softmax(scores, -1)\nloss = F.cross_entropy(logits, y)\n",
        b"loss = F.nll_loss(F.log_softmax(x, 1), y)\n",
        b'"""The loss is `log(p)`."""\nloss = model(x)\n',
        b"loss = self.log(x)\nlogger.log(loss)\n",
    ],
)
def test_files_without_are_held_back(source: bytes) -> None:
    assert not may_hold_numerics(TORCH + source)


def test_without_torch_there_is_nothing_to_ask() -> None:
    assert not worth_reading(b"loss = log(p)\nprint(loss)\n")


@pytest.mark.parametrize(
    ("source", "held"),
    [
        (b"nn.Tanh(), nn.Tanh(),\nnn.Tanh(),\nnn.Tanh()\n", True),
        (b"for _ in range(n):\n    layers += [nn.Linear(8, 8), nn.Sigmoid()]\n", True),
        (b"x = torch.tanh(self.a(x))\n", False),
        (b"gate = torch.sigmoid(x)\n" * 6, False),
        (b"y = x * torch.sigmoid(x)\n" * 6, False),
        (b"class Net:\n    def __init__(self):\n        self.act = nn.Tanh()\n" + b"        self.act(x)\n" * 4, True),
    ],
)
def test_stacks_of_activations(source: bytes, held: bool) -> None:
    assert may_hold_stack(TORCH + source) is held


def test_divisions_are_asked_for_where_there_is_a_loss() -> None:
    assert may_hold_divisions(b"loss = a / b")
    assert not may_hold_divisions(b"mean = a / b")
