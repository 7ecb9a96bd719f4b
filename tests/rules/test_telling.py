"""What is told of what the rules say: nothing twice, and what really follows."""

from __future__ import annotations

import pytest

from gradlint.config import Layer, Settings
from gradlint.engine import fix, lint
from gradlint.model import Severity
from gradlint.records import replace

ONLY = Settings((Layer(select=("GL304", "GL104", "GL401", "GL403")),))

EPOCH = """\
def train_epoch(model, optimizer, loader, n):
{head}    for i, x in enumerate(loader):
        (model(x).mean() / n).backward()
        if (i + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
{rest}"""

MAIN = """

def main(model, optimizer, loader, n, epochs):
    for _ in range(epochs):
        train_epoch(model, optimizer, loader, n)
"""

TWO_CLIPS = """\
import torch


def train(actor, critic, actor_optimizer, critic_optimizer, loader):
    for x in loader:
        actor_optimizer.zero_grad()
        critic_optimizer.zero_grad()
        (actor(x).mean() + critic(x).mean()).backward()
        torch.nn.utils.clip_grad_value_(actor.parameters(), 1.0)
        torch.nn.utils.clip_grad_value_(critic.parameters(), 1.0)
        actor_optimizer.step()
        critic_optimizer.step()
"""

ARMS = """\
def train(model, optimizer, scaler, loader, amp):
    for x in loader:
        loss = model(x).mean()
        if amp:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
"""


def _said(text: str, settings: Settings = ONLY) -> list[tuple[str, int]]:
    return [(f.code, f.span.start.row) for f in lint(text.encode(), "train.py", settings).findings]


@pytest.mark.parametrize(
    ("head", "rest", "fate"),
    [
        ("", "", "leak into the next call"),
        ("    optimizer.zero_grad()\n", "", "are thrown away"),
        ("    model.train()\n", MAIN, "leak into the next"),
        ("", MAIN.replace("        train", "        optimizer.zero_grad()\n        train"), "are thrown away"),
    ],
)  # fmt: skip
def test_gradients_are_thrown_away_only_where_a_zero_grad_comes_first(head: str, rest: str, fate: str) -> None:
    findings = lint(EPOCH.format(head=head, rest=rest).encode(), "train.py", ONLY).findings
    assert [f.code for f in findings] == ["GL304"]
    assert fate in findings[0].message


def test_advice_is_given_once_a_function() -> None:
    assert _said(TWO_CLIPS) == [("GL104", 9)]
    assert _said(TWO_CLIPS + "\n\n" + TWO_CLIPS.replace("import torch", "")) == [("GL104", 9), ("GL104", 23)]
    severe = replace(ONLY, severities=(("GL104", Severity.WARNING),))
    assert _said(TWO_CLIPS, severe) == [("GL104", 9), ("GL104", 10)]


def test_what_is_not_told_is_mended_all_the_same() -> None:
    outcome = fix(TWO_CLIPS.encode(), "train.py", ONLY, unsafe=True)
    assert outcome.source.decode().count("clip_grad_norm_") == 2
    assert outcome.result.findings == ()


def test_silencing_the_first_does_not_bring_the_second() -> None:
    line = "clip_grad_value_(actor.parameters(), 1.0)"
    assert _said(TWO_CLIPS.replace(line, f"{line}  # gradlint: ignore[GL104]")) == []


def test_both_arms_of_an_amp_flag_are_one_fact() -> None:
    assert _said(ARMS) == [("GL401", 5)]


def test_two_mistakes_in_two_arms_are_two() -> None:
    cleared = ARMS.replace("backward()\n", "backward()\n            optimizer.zero_grad()\n")
    assert _said(cleared) == [("GL403", 6), ("GL403", 11)]
