"""What a monitor says of the training around the gradients; each with its right twin, which stays without a finding."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradlint.runtime import GradientMonitor, Limits
from gradlint.runtime.monitor.data import Condition, Finding
from tests.runtime.monitored import backward, network, train

STEPS = 40


def found(monitor: GradientMonitor) -> list[Condition]:
    assert monitor.data.notes == []
    return [finding.condition for finding in monitor.findings]


def watched(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    steps: int = STEPS,
    before: Callable[[int], None] = lambda step: None,
    between: Callable[[], None] = lambda: None,
    after: Callable[[int, Tensor], None] = lambda step, loss: None,
    **settings: Any,
) -> list[Finding]:
    """A plain loop over a monitored model; `before` each forward, `between` backward and step, `after` each step."""
    batches = torch.Generator().manual_seed(1)
    with GradientMonitor(model, optimizer, every=4, **settings) as monitor:
        for step in range(1, steps + 1):
            before(step)
            x = torch.randn(16, 4, generator=batches)
            loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
            monitor.loss(loss)
            optimizer.zero_grad()
            backward(loss)
            between()
            optimizer.step()
            after(step, loss)
    assert monitor.data.notes == []
    return monitor.findings


def test_parameters_in_no_optimizer() -> None:
    model = network()
    (finding,) = watched(model, torch.optim.AdamW(model[0].parameters(), lr=1e-3))
    assert (finding.condition, finding.layers) == (
        Condition.NO_OPTIMIZER, ("2.weight", "2.bias", "4.weight", "4.bias"),
    )  # fmt: skip
    assert "test_monitor_health.py" in finding.line


@pytest.mark.parametrize("fused", [True, False])
def test_parameters_of_another_optimizer_are_right(fused: bool) -> None:
    model = network()
    other = torch.optim.AdamW(model[2:].parameters(), lr=1e-3, fused=fused)
    ours = torch.optim.AdamW(model[0].parameters(), lr=1e-3)
    assert watched(model, ours, after=lambda step, loss: other.step()) == []


def test_parameters_that_are_frozen_are_right() -> None:
    model = network()
    model[2:].requires_grad_(False)
    assert watched(model, torch.optim.AdamW(model[0].parameters(), lr=1e-3)) == []


def test_an_optimizer_of_another_model() -> None:
    model = network()
    stale = torch.optim.AdamW(copy.deepcopy(model).parameters(), lr=1e-3)
    conditions = [finding.condition for finding in watched(model, stale)]
    assert Condition.FOREIGN_OPTIMIZER in conditions
    assert Condition.NO_OPTIMIZER not in conditions
    assert watched(model, torch.optim.AdamW(model.parameters(), lr=1e-3)) == []


def test_copies_of_the_parameters_that_are_written_back_are_right() -> None:
    """As apex, DeepSpeed and others train half-precision models."""
    model = network()
    masters = [nn.Parameter(p.detach().clone()) for p in model.parameters()]

    def hand_over() -> None:
        for master, p in zip(masters, model.parameters(), strict=True):
            master.grad = p.grad

    def write_back(step: int, loss: Tensor) -> None:
        with torch.no_grad():
            for master, p in zip(masters, model.parameters(), strict=True):
                p.copy_(master)

    assert watched(model, torch.optim.SGD(masters, lr=1e-3), between=hand_over, after=write_back) == []


def test_a_layer_that_was_replaced_behind_the_optimizer() -> None:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model[4] = nn.Linear(8, 1)
    findings = {finding.condition: finding.layers for finding in watched(model, optimizer)}
    assert findings[Condition.NO_OPTIMIZER] == ("4.weight", "4.bias")
    assert findings[Condition.NEVER_TRAINED] == ("param_groups[0][4]", "param_groups[0][5]")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    assert watched(model, optimizer) == []


def test_a_learning_rate_of_0() -> None:
    model = network()
    (finding,) = watched(model, torch.optim.AdamW(model.parameters(), lr=0.0))
    assert finding.condition is Condition.RATE_ZERO
    assert "since step 1" in finding.message


def test_a_warm_up_that_begins_with_0_and_a_schedule_that_ends_with_it_are_right() -> None:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step / 5, (STEPS - step) / STEPS))
    assert watched(model, optimizer, after=lambda step, loss: schedule.step()) == []


def with_dropout(p: float = 0.1) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(p), nn.Linear(16, 1))


def test_eval_mode_while_training() -> None:
    model = with_dropout()

    def evaluate(step: int, loss: Tensor) -> None:
        if step == 12:
            model.eval()

    (finding,) = watched(model, torch.optim.AdamW(model.parameters(), lr=1e-3), after=evaluate)
    assert finding.condition is Condition.EVAL_MODE
    assert finding.step > 12
    assert "Dropout" in finding.message


def test_eval_mode_between_steps_or_of_layers_that_do_not_mind_is_right() -> None:
    model = with_dropout()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    evaluated = watched(
        model, optimizer, before=lambda step: nop(model.train()), after=lambda step, loss: nop(model.eval())
    )
    assert evaluated == []
    frozen = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    frozen[1].eval()
    assert watched(frozen, torch.optim.AdamW(frozen.parameters(), lr=1e-3)) == []
    plain = with_dropout(p=0.0).eval()
    assert watched(plain, torch.optim.AdamW(plain.parameters(), lr=1e-3)) == []


def nop(value: object) -> None:
    """Takes a value, and leaves it."""


@pytest.mark.parametrize("add", [True, False])
def test_graphs_that_are_kept(add: bool) -> None:
    kept: list[Tensor] = []

    def keep(step: int, loss: Tensor) -> None:
        kept.append(kept.pop() + loss if add and kept else loss)

    model = network()
    (finding,) = watched(model, torch.optim.AdamW(model.parameters(), lr=1e-3), after=keep)
    assert (finding.condition, finding.code) == (Condition.GRAPHS_KEPT, "GL809")


def test_losses_that_are_kept_as_numbers_or_for_a_few_steps_are_right() -> None:
    model = network()
    numbers: list[object] = []
    last: list[Tensor] = []

    def keep(step: int, loss: Tensor) -> None:
        numbers.append((loss.item(), loss.detach()))
        last.append(loss)
        del last[:-4]

    assert watched(model, torch.optim.AdamW(model.parameters(), lr=1e-3), after=keep) == []


def wide() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1))


def test_dead_units() -> None:
    model = wide()
    model.get_parameter("0.bias").data[:48] = -1e3
    (finding,) = watched(model, torch.optim.SGD(model.parameters(), lr=1e-3), steps=45)
    assert (finding.condition, finding.layers) == (Condition.DEAD_UNITS, ("0",))
    assert "75 % of the units of 0" in finding.message
    assert watched(model, torch.optim.SGD(model.parameters(), lr=1e-3), 45, limits=Limits(dead_units=0.9)) == []


def test_units_that_are_excited_now_and_then_are_right() -> None:
    model = wide()
    model.get_parameter("0.bias").data[:] = -1.0
    assert watched(model, torch.optim.SGD(model.parameters(), lr=1e-3), steps=45) == []


def test_a_nan_loss_names_its_operation() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with GradientMonitor(model, optimizer) as monitor:
        train(model, optimizer, 3)
        loss = torch.log(model(torch.randn(4, 4)) - 1e3).mean()
        monitor.loss(loss)
        optimizer.zero_grad()
        backward(loss)
        optimizer.step()
    (finding,) = monitor.findings
    assert (finding.condition, finding.step) == (Condition.NOT_FINITE, 4)
    assert "log" in finding.message
    assert "GL601" in finding.message
