"""Errors are seen, and what is only guessed is a warning that says so; fragments keep their findings."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from gradlint.config import Layer, Settings
from gradlint.engine import lint
from gradlint.model import Finding, FixSafety, Grade, Severity
from tests.rules.expectations import FIXTURES, lint_with, rule_of

_SETTINGS = Settings(layers=(Layer(select=("GL1", "GL2", "GL3", "GL4", "GL5"), ignore=("GL304",)),))


def _found(source: str) -> list[Finding]:
    result = lint(textwrap.dedent(source).encode(), "train.py", _SETTINGS)
    assert result.crashes == ()
    return list(result.findings)


def _codes(source: str) -> list[tuple[str, str, str]]:
    return [(f.code, f.severity.label, f.grade.value) for f in _found(source)]


TRAIN = """
def train(model, loader, optimizer, loss_fn):
    for x, y in loader:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
"""


def test_a_function_that_is_given_everything_keeps_its_errors() -> None:
    assert _codes(TRAIN) == [("GL401", "error", "seen")]


@pytest.mark.parametrize(
    ("fragment", "code"),
    [
        ("for x in loader:\n    loss = f(model(x))\n    loss.backward()\n    optimizer.step()\n", "GL401"),
        (
            (
                "for x in loader:\n    optimizer.zero_grad()\n    loss = f(model(x))\n    loss.backward()\n"
                "    optimizer.step()\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
            ),
            "GL101",
        ),
        (
            (
                "for x in loader:\n    optimizer.zero_grad()\n    scaler.scale(f(model(x))).backward()\n"
                "    clip_grad_norm_(model.parameters(), 1.0)\n    scaler.step(optimizer)\n    scaler.update()\n"
            ),
            "GL201",
        ),
        (
            (
                "for i, x in enumerate(loader):\n    loss = F.mse_loss(model(x), y)\n    loss.backward()\n"
                "    if (i + 1) % n == 0:\n        optimizer.step()\n        optimizer.zero_grad()\n"
            ),
            "GL301",
        ),
        ("optimizer.zero_grad\nloss.backward()\noptimizer.step()\n", "GL405"),
    ],
)
def test_fragments_without_imports_keep_their_errors(fragment: str, code: str) -> None:
    assert (code, "error", "seen") in _codes(fragment)


def test_what_is_guessed_is_told_with_an_if() -> None:
    (finding,) = _found(TRAIN.replace("optimizer.step()", "optimizer.step(loss)"))
    assert (finding.code, finding.severity, finding.grade) == ("GL401", Severity.WARNING, Grade.GUESSED)
    assert finding.message.startswith("if `optimizer` is an optimizer: `loss.backward()` adds to gradients")


def test_code_that_is_not_seen_leaves_no_safe_fix() -> None:
    source = """
    def train(model, loader, optimizer, {unknown}, n):
        for i, (x, y) in enumerate(loader):
            loss = torch.nn.functional.mse_loss(model(x), y)
            {backward}
            if (i + 1) % n == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
    """
    (seen,) = _found(source.format(unknown="y", backward="loss.backward()"))
    (guessed,) = _found(source.format(unknown="strategy", backward="strategy.backward(loss)"))
    assert (seen.code, guessed.code) == ("GL301", "GL301")
    assert (seen.severity, guessed.severity) == (Severity.ERROR, Severity.WARNING)
    assert seen.fix is not None
    assert seen.fix.safety is FixSafety.SAFE
    assert guessed.fix is None or guessed.fix.safety is FixSafety.UNSAFE


def test_evidence_elsewhere_in_the_file_counts() -> None:
    elsewhere = "def rate(optimizer, lr):\n    for group in optimizer.param_groups:\n        group['lr'] = lr\n"
    doubtful = TRAIN.replace("optimizer.step()", "optimizer.step(loss)")
    assert _codes(doubtful) == [("GL401", "warning", "guessed")]
    assert _codes(doubtful + elsewhere) == [("GL401", "error", "seen")]


def test_a_function_that_others_call_for_each_batch() -> None:
    source = """
    def train_step(model, x, y, optimizer):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    """
    (finding,) = _found(source)
    assert (finding.code, finding.grade) == ("GL401", Grade.GUESSED)
    assert finding.message.startswith("if nothing clears between two calls of `train_step`: ")
    assert _codes(source + "\n    for x, y in loader:\n        train_step(model, x, y, optimizer)\n") == [
        ("GL401", "error", "seen")
    ]


def test_lightning_calls_training_step_and_clears_nothing() -> None:
    assert _codes(
        """
        import lightning as L
        import torch

        class Net(L.LightningModule):
            def __init__(self):
                super().__init__()
                self.automatic_optimization = False

            def training_step(self, batch, batch_idx):
                opt = self.optimizers()
                loss = torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
                self.manual_backward(loss)
                opt.step()
        """
    ) == [("GL401", "error", "seen")]


def test_one_path_that_is_seen_is_enough() -> None:
    """The same place is spoken of on two paths, first with a helper's backward and then without."""
    source = """
    def train(model, loader, optimizer, loss_fn, n, strategy, fast):
        for i, (x, y) in enumerate(loader):
            loss = loss_fn(model(x), y) / n
            if fast:
                strategy.backward(loss)
            else:
                loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if (i + 1) % n == 0:
                optimizer.step()
                optimizer.zero_grad()
    """
    assert _codes(source) == [("GL103", "error", "seen")]


@pytest.mark.parametrize(
    "call", ["scale_gradients_of(model, n)", "merge_grads(model)", "my_backward_hook(model.parameters())"]
)
def test_an_unknown_call_that_holds_the_gradients(call: str) -> None:
    source = f"""
    def train(model, loader, optimizer, loss_fn, n):
        for i, (x, y) in enumerate(loader):
            loss = torch.nn.functional.mse_loss(model(x), y) / n
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            {call}
            if (i + 1) % n == 0:
                optimizer.step()
                optimizer.zero_grad()
    """
    found = [f for f in _found(source) if f.code == "GL103"]
    assert [(f.severity, f.grade) for f in found] == [(Severity.WARNING, Grade.GUESSED)]


GUESSED = sorted(FIXTURES.glob("*/bad_guessed_*.py"))


@pytest.mark.parametrize("fixture", GUESSED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_fixtures_of_which_a_part_is_guessed(fixture: Path) -> None:
    rule = rule_of(fixture)
    found = lint_with(rule, fixture.read_text(encoding="utf-8"), str(fixture)).findings
    for finding in (f for f in found if f.code == rule.meta.code):
        assert (finding.severity, finding.grade) == (Severity.WARNING, Grade.GUESSED)
        assert finding.message.startswith(("if `", "if nothing clears "))
