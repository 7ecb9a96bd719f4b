"""GradientMonitor between its samples: every step is seen, and what is right stays without a finding."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from gradlint.runtime import GradientMonitor, Limits, diagnose_gradients
from gradlint.runtime.monitor.data import Condition
from gradlint.runtime.monitor.measurement import gradient_norms
from gradlint.runtime.monitor.reading import Turn
from gradlint.runtime.monitor.watcher import Watcher
from tests.runtime.monitored import backward, loss_of, network, total_norm, train


@pytest.fixture(params=["host", "device"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """As on a CPU, where numbers are at hand; and as on a device, where they wait for the next sample."""
    if request.param == "device":
        monkeypatch.setattr(Turn, "at_hand", False)
        monkeypatch.setattr(Watcher, "_startles", lambda self: False)
    return str(request.param)


def conditions(monitor: GradientMonitor) -> list[tuple[Condition, int]]:
    return [(finding.condition, finding.step) for finding in monitor.findings]


@pytest.mark.parametrize("max_norm", [5.0, None])
def test_a_spike_between_samples_is_seen(place: str, max_norm: float | None) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    norms: list[float] = []

    def spoil(step: int) -> None:
        if step == 58:
            for p in model.parameters():
                p.grad = None if p.grad is None else p.grad * 1e4
        norms.append(total_norm(model))

    with GradientMonitor(model, optimizer) as monitor:
        train(model, optimizer, 120, max_norm=max_norm, told=monitor.loss, after_backward=spoil)
    assert (Condition.SPIKE, 58) in conditions(monitor)
    assert monitor.data.largest is not None
    assert monitor.data.largest[0] == 58
    assert [norm for _, norm in monitor.data.totals] == pytest.approx(norms, rel=1e-4)
    assert f"largest {norms[57]:.3g} at step 58" in monitor.summary()
    spike = next(finding for finding in monitor.findings if finding.condition is Condition.SPIKE)
    if place == "host":  # the step was sampled because of it
        assert 58 in [sample.step for sample in monitor.samples]
        assert "monitored.py" in spike.line
    if place == "host" or max_norm is None:
        assert len(spike.layers) == 3


@pytest.mark.parametrize("max_norm", [5.0, None])
def test_the_first_bad_step_is_the_one_that_is_told(place: str, max_norm: float | None) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    told: list[tuple[int, Any]] = []
    steps: list[int] = []

    def log(record: dict[str, Any]) -> None:
        if record["kind"] == "finding":
            told.append((steps[-1], record["step"]))

    def spoil(step: int) -> None:
        steps.append(step)
        if step == 13:
            spoilt = model.get_parameter("2.weight").grad
            assert spoilt is not None
            spoilt[0, 0] = math.nan

    with GradientMonitor(model, optimizer, log=log) as monitor:
        train(model, optimizer, 25, max_norm=max_norm, after_backward=spoil)
    assert conditions(monitor) == [(Condition.NOT_FINITE, 13)]
    assert told == [(13 if place == "host" else 20, 13)]
    if place == "host" or max_norm is None:
        assert monitor.findings[0].layers == ("2.weight",)


def test_a_norm_of_another_kind_is_not_taken_for_the_total_norm(place: str) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    norms: list[float] = []
    with GradientMonitor(model, optimizer, every=5) as monitor:

        def clip(step: int) -> None:
            norms.append(total_norm(model))
            clip_grad_norm_(model.parameters(), 1e-3, norm_type=math.inf)

        train(model, optimizer, 12, after_backward=clip)
    assert [norm for _, norm in monitor.data.totals] == pytest.approx(norms, rel=1e-4)


def test_the_clips_own_norm_is_used_where_it_is_the_total_one(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def counted(*asked: Any) -> Any:
        measured.append(1)
        return gradient_norms(*asked)

    monkeypatch.setattr("gradlint.runtime.monitor.watcher.gradient_norms", counted)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with GradientMonitor(model, optimizer, every=5) as monitor:
        train(model, optimizer, 12, max_norm=1.0)
    assert len(monitor.data.totals) == 12
    assert len(measured) == 1  # at the first step nobody knows yet


# What is right.


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("optimizer", [(torch.optim.AdamW, 1e-3), (torch.optim.SGD, 1e-6), (torch.optim.SGD, 1e-2)])
def test_noisy_targets_are_no_finding(optimizer: tuple[type[Any], float], every: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    made = optimizer[0](model.parameters(), lr=optimizer[1])
    with GradientMonitor(model, made, every=every) as monitor:
        for _ in range(400):
            x = torch.randn(16, 8)
            loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True) + 3 * torch.randn(16, 1))
            monitor.loss(loss)
            made.zero_grad()
            backward(loss)
            made.step()
    assert monitor.findings == []


def test_a_summed_loss_that_falls_is_no_finding() -> None:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with GradientMonitor(model, optimizer) as monitor:
        train(model, optimizer, 120, factor=1e4, told=monitor.loss)
    assert min(norm for _, norm in monitor.data.totals) > 100
    assert monitor.findings == []


# Dead and cut off.


def relu_network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))


def test_a_dead_layer_is_named_by_one_look() -> None:
    model = relu_network()
    model.get_parameter("2.bias").data.fill_(-1e3)
    backward(model(torch.randn(8, 4)).pow(2).mean() + model.get_parameter("4.weight").sum())
    found = diagnose_gradients(model)
    (finding,) = found.findings
    assert finding.condition is Condition.DEAD_LAYERS
    assert finding.layers == ("0.weight", "0.bias", "2.weight", "2.bias")
    assert "nothing looks wrong" not in str(found)


def test_a_layer_that_is_cut_off_is_named_by_one_look() -> None:
    model = relu_network()
    backward(model[2:](model[:2](torch.randn(8, 4)).detach()).pow(2).mean())
    (finding,) = diagnose_gradients(model).findings
    assert (finding.condition, finding.layers) == (Condition.NEVER_TRAINED, ("0.weight", "0.bias"))


def forward_cut(model: nn.Sequential, x: Tensor, cut: bool) -> Tensor:
    hidden = model[:2](x)
    return nn.functional.mse_loss(model[2:](hidden.detach() if cut else hidden), x.sum(1, keepdim=True))


@pytest.mark.parametrize("cut", [True, False])
def test_a_layer_that_never_gets_a_gradient_is_named(cut: bool) -> None:
    model = relu_network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with GradientMonitor(model, optimizer, every=2) as monitor:
        for _ in range(20):
            loss = forward_cut(model, torch.randn(16, 4), cut)
            monitor.loss(loss)
            optimizer.zero_grad()
            backward(loss)
            optimizer.step()
    assert [(f.condition, f.layers) for f in monitor.findings] == (
        [(Condition.NEVER_TRAINED, ("0.weight", "0.bias"))] if cut else []
    )


def test_a_layer_that_dies_later_is_named_from_then_on() -> None:
    model = relu_network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

    def kill(step: int) -> None:
        if step == 12:
            model.get_parameter("2.bias").data.fill_(-1e3)

    with GradientMonitor(model, optimizer, every=2) as monitor:
        train(model, optimizer, 30, told=monitor.loss, after_backward=kill)
    (finding,) = [finding for finding in monitor.findings if finding.condition is Condition.DEAD_LAYERS]
    assert finding.step > 12
    assert "2.weight" in finding.layers


# Silence.


def test_nothing_is_vouched_for_that_was_not_seen() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with GradientMonitor(model, optimizer) as monitor:
        pass
    assert monitor.summary().endswith("nothing can be said: no step of this optimizer was seen")
    with GradientMonitor(model, optimizer) as monitor:
        optimizer.step()
    assert [finding.condition for finding in monitor.findings] == [Condition.NO_GRADIENTS]


def test_limits_are_the_monitors() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    with GradientMonitor(model, optimizer, limits=Limits(exploding=1e9)) as monitor:
        train(model, optimizer, 12, factor=1e4)
    assert monitor.findings == []


def test_a_step_outside_of_the_monitor_is_not_counted() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with GradientMonitor(model, optimizer) as monitor:
        backward(loss_of(model, torch.randn(4, 4)))
        optimizer.step()
    optimizer.step()
    assert [step for step, _ in monitor.data.totals] == [1]
