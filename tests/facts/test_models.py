"""What is trained, and how that is known: the words that messages use, and the line they point to."""

from __future__ import annotations

import textwrap

import pytest

from gradlint.config import Layer, Settings
from gradlint.engine import lint
from gradlint.model import Finding

LOOP = """
optimizer = torch.optim.AdamW(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
"""

LSTM_INSIDE = """
import torch
from torch import nn

class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 4)

class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"inner": Inner()})
"""


def _findings(source: str, code: str) -> list[Finding]:
    settings = Settings(layers=(Layer(select=(code,), unfixable=("ALL",)),))
    result = lint(source.encode(), "train.py", settings)
    assert result.crashes == ()
    return list(result.findings)


def _only(source: str, code: str) -> Finding:
    found = _findings(source, code)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("model = Outer()", "trains `Outer` (it holds `nn.LSTM`)"),
        ("model = nn.DataParallel(Outer().cuda())", "trains `Outer` (it holds `nn.LSTM`)"),
        ("model = torch.compile(Inner())", "trains `Inner` (it holds `nn.LSTM`)"),
        ("model = nn.Sequential(nn.Linear(4, 4), nn.GRU(4, 4))", "trains `model` (`nn.GRU`)"),
        ("def make(): return Outer()\nmodel = make()", "trains `Outer` (it holds `nn.LSTM`)"),
        ("import timm\nmodel = timm.create_model('vit_base_patch16_224')", "trains `model` (`vit_base_patch16_224`)"),
        ("from zoo import GPT\nmodel = GPT.from_name('small')", "trains `model` (`GPT`)"),
    ],
)
def test_the_message_says_what_was_seen(model: str, said: str) -> None:
    assert said in _only(f"{LSTM_INSIDE}\n{model}\n{LOOP}", "GL108").message


@pytest.mark.parametrize(
    "model",
    [
        "model = nn.Linear(4, 4)",
        "import timm\nmodel = timm.create_model('resnet50')",
        "from zoo import TransformerNet\nmodel = TransformerNet()",
        "from zoo import build\nmodel = build('lstm')",
    ],
)
def test_another_model_of_the_file_is_no_evidence(model: str) -> None:
    assert _findings(f"{LSTM_INSIDE}\n{model}\n{LOOP}", "GL108") == []


def test_the_evidence_is_the_second_line() -> None:
    source = f"{LSTM_INSIDE}\nmodel = Outer()\n{LOOP}"
    related = _only(source, "GL108").related
    assert [source.splitlines()[r.span.start.row - 1].strip() for r in related] == ["self.rnn = nn.LSTM(4, 4)"]


def test_a_class_that_holds_itself_is_read_once() -> None:
    source = """
        import torch
        from torch import nn

        class Tree(nn.Module):
            def __init__(self, depth):
                super().__init__()
                self.cell = nn.GRUCell(4, 4)
                self.child = Tree(depth - 1) if depth else None
                self.child = wrap(self.child)

        model = Tree(3)
        model = model.to(device)
    """
    assert "`Tree` (it holds `nn.GRUCell`)" in _only(textwrap.dedent(source) + LOOP, "GL108").message


def test_a_policy_is_known_by_its_loss() -> None:
    source = """
        import torch

        def returns_of(episode):
            return torch.tensor(episode)

        def update(policy, optimizer, episodes):
            for episode in episodes:
                log_probs = torch.stack(episode.log_probs)
                returns = returns_of(episode.rewards)
                loss = -(log_probs * returns).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """
    assert "(`log_probs` in its loss)" in _only(textwrap.dedent(source), "GL108").message


def test_a_log_probability_under_no_grad_is_data() -> None:
    source = """
        import torch

        def update(critic, policy, optimizer, batches):
            for obs, rewards in batches:
                with torch.no_grad():
                    target = rewards - policy(obs).log_prob(rewards)
                loss = (critic(obs) - target).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """
    assert _findings(textwrap.dedent(source), "GL108") == []
