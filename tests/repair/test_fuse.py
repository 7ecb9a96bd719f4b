"""Rewrites of loss numerics that pairs of fixtures cannot show: unsafe ones, and refusals with their reasons."""

from __future__ import annotations

import textwrap

import pytest

from gradlint.config import Settings
from gradlint.engine import lint
from gradlint.model import Fix, FixSafety
from gradlint.repair.edits import applied

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"


def _offer(body: str) -> tuple[str, Fix | None, str]:
    """The source, the fix of its first finding, and why there is none."""
    source = HEAD + textwrap.dedent(body)
    result = lint(source.encode(), "loss.py", Settings())
    assert result.crashes == (), result.crashes[0].traceback
    assert result.findings
    return source, result.findings[0].fix, " ".join(result.notes)


def _fixed(body: str, safety: FixSafety) -> str:
    source, fix, notes = _offer(body)
    assert fix is not None, notes
    assert fix.safety is safety
    return applied(source, fix.edits).removeprefix(HEAD)


BCE_AND_ACCURACY = """\
    def bce_loss(logits, y):
        probs = torch.sigmoid(logits)
        loss = F.binary_cross_entropy(probs, y)
        return loss, (probs > 0.5).float().mean()
    """


def test_a_sigmoid_with_another_use_stays_and_the_fix_is_unsafe() -> None:
    fixed = _fixed(BCE_AND_ACCURACY, FixSafety.UNSAFE)
    assert "    probs = torch.sigmoid(logits)\n" in fixed
    assert "    loss = F.binary_cross_entropy_with_logits(logits, y)\n" in fixed


def test_a_sigmoid_before_cross_entropy_is_dropped_only_unsafely() -> None:
    body = "def class_loss(x, y):\n    return F.cross_entropy(torch.sigmoid(x), y)\n"
    assert _fixed(body, FixSafety.UNSAFE).endswith("return F.cross_entropy(x, y)\n")


@pytest.mark.parametrize(
    ("between", "reason"),
    [
        ("logits = logits * 2", "`logits` changes on the way"),
        ("logits += 1", "`logits` changes on the way"),
        ("logits[0] = 0.0", "`logits` changes on the way"),
        ("logits.mul_(2)", "`logits` changes on the way"),
    ],
)
def test_logits_that_change_are_not_handed_over(between: str, reason: str) -> None:
    body = f"""\
    def class_loss(logits, y):
        probs = torch.softmax(logits, dim=1)
        {between}
        return F.cross_entropy(probs, y) + logits.mean()
    """
    _, fix, notes = _offer(body)
    assert fix is None
    assert reason in notes


def test_logits_that_change_in_the_loop_are_not_handed_over() -> None:
    body = """\
    def class_loss(logits, y, steps):
        probs = torch.softmax(logits, dim=1)
        loss = 0.0
        for step in range(steps):
            loss = loss + F.cross_entropy(probs, y)
            logits = logits - step
        return loss + logits.mean()
    """
    _, fix, notes = _offer(body)
    assert fix is None
    assert "`logits` changes on the way" in notes


def test_probabilities_that_are_read_in_the_next_turn_are_kept() -> None:
    body = """\
    def train(model, optimizer, loader):
        probs = None
        for x, y in loader:
            if probs is not None:
                print(probs.max())
            probs = torch.softmax(model(x), dim=1)
            loss = F.cross_entropy(probs, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    fixed = _fixed(body, FixSafety.SAFE)
    assert "        logits = model(x)\n        probs = torch.softmax(logits, dim=1)\n" in fixed
    assert "F.cross_entropy(logits, y)" in fixed


def test_an_inner_function_that_reads_the_probabilities_keeps_them() -> None:
    body = """\
    def class_loss(logits, y):
        def report():
            return probs.max()

        probs = torch.softmax(logits, dim=1)
        loss = F.cross_entropy(probs, y)
        print(report())
        return loss
    """
    fixed = _fixed(body, FixSafety.SAFE)
    assert "    probs = torch.softmax(logits, dim=1)\n    loss = F.cross_entropy(logits, y)\n" in fixed


def test_a_name_that_is_taken_is_not_given_to_the_logits() -> None:
    body = """\
    def class_loss(model, x, y, logits):
        probs = torch.softmax(model(x), dim=1)
        return F.cross_entropy(probs, y) + logits.mean()
    """
    assert "    raw_logits = model(x)\n    return F.cross_entropy(raw_logits, y)" in _fixed(body, FixSafety.SAFE)


def test_a_comment_inside_is_not_lost() -> None:
    body = """\
    def energy_loss(x):
        return torch.log(
            torch.exp(x)  # unnormalised
            .sum(dim=1)
        ).mean()
    """
    _, fix, notes = _offer(body)
    assert fix is None
    assert "a comment would be lost" in notes


def test_two_forwards_are_not_made_one() -> None:
    """With dropout they differ."""
    body = """\
    def weight_loss(net, x, y):
        weights = torch.exp(net(x)) / torch.exp(net(x)).sum(dim=1, keepdim=True)
        return (weights - y).abs().mean()
    """
    _, fix, _ = _offer(body)
    assert fix is None


@pytest.mark.parametrize(
    ("total", "new"),
    [
        ("torch.exp(x).sum(dim=(1, 2))", "torch.logsumexp(x, dim=(1, 2))"),
        ("torch.exp(x).sum(axis=1, keepdims=True)", "torch.logsumexp(x, dim=1, keepdim=True)"),
        ("torch.sum(x.exp(), 1, True)", "torch.logsumexp(x, 1, keepdim=True)"),
        ("torch.exp(x).sum()", "torch.logsumexp(x.flatten(), dim=0)"),
        ("torch.sum(torch.exp(x / t))", "torch.logsumexp((x / t).flatten(), dim=0)"),
    ],
)
def test_the_dimensions_of_a_sum_are_kept(total: str, new: str) -> None:
    body = f"def energy_loss(x, t):\n    return torch.log({total}).mean()\n"
    assert f"    return {new}.mean()\n" in _fixed(body, FixSafety.SAFE)


@pytest.mark.parametrize(
    "total", ["torch.exp(x).sum(1, dtype=torch.float64)", "torch.exp(x).mean(1)", "(torch.exp(x) * 2).sum(1)"]
)
def test_other_sums_are_left(total: str) -> None:
    _, fix, _ = _offer(f"def energy_loss(x, t):\n    return torch.log({total}).mean()\n")
    assert fix is None


@pytest.mark.parametrize("use", ["", " + probs.mean()"])
def test_logits_over_several_rows_keep_together(use: str) -> None:
    body = f"""\
    def class_loss(model, x, y):
        probs = torch.softmax(
            model(x)
            + x,
            dim=1,
        )
        return F.cross_entropy(probs, y){use}
    """
    fixed = _fixed(body, FixSafety.SAFE)
    assert "    logits = (model(x)\n" in fixed
    assert f"    return F.cross_entropy(logits, y){use}\n" in fixed


def test_a_name_bound_in_a_comprehension_is_another_one() -> None:
    body = """\
    def class_loss(heads, probs, y):
        probs = torch.softmax(probs, dim=1)
        return sum(F.cross_entropy(probs, y) for probs in [torch.softmax(h, dim=1) for h in heads]) + probs.mean()
    """
    _, fix, _ = _offer(body)
    assert fix is None
