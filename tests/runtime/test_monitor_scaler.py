"""GradientMonitor beside a gradient scaler: true units, steps that are skipped, and numbers that are not finite."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from gradlint.runtime import GradientMonitor
from gradlint.runtime.monitor.data import Condition
from tests.runtime.monitored import backward, loss_of, network, total_norm, train, weights

SCALE = 1024.0


def scaler(scale: float = SCALE, **settings: Any) -> torch.amp.GradScaler:
    return torch.amp.GradScaler("cpu", init_scale=scale, **settings)


def spoil(model: nn.Module, step: int, wanted: int) -> None:
    if step == wanted:
        gradient = next(model.parameters()).grad
        assert gradient is not None
        gradient[0, 0] = math.inf


def restore(model: nn.Module, values: list[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), values, strict=True):
            parameter.copy_(value)


@pytest.mark.parametrize("hand_over", [True, False])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("unscale", [False, True])
def test_norms_are_true_whatever_the_loop_does(unscale: bool, fused: bool, hand_over: bool) -> None:
    plain = network()
    sgd = torch.optim.SGD(plain.parameters(), lr=0.01)
    with GradientMonitor(plain, sgd, every=1) as reference:
        train(plain, sgd, 4)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=fused)
    amp = scaler()
    with GradientMonitor(model, optimizer, amp if hand_over else None, every=1) as monitor:
        train(model, optimizer, 4, scaler=amp, unscale=unscale)
    expected = [sample.norm for sample in reference.samples]
    assert [sample.norm for sample in monitor.samples] == pytest.approx(expected, rel=1e-4)
    assert [sample.used for sample in monitor.samples] == pytest.approx(expected, rel=1e-4)
    assert {sample.scale for sample in monitor.samples} == {SCALE}
    assert monitor.findings == []


@pytest.mark.parametrize("fused", [False, True])
def test_a_clip_of_scaled_gradients_is_told_and_its_norms_are_true(fused: bool) -> None:
    norms: list[float] = []
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=fused)
    amp = scaler()
    with GradientMonitor(model, optimizer, amp, every=2) as monitor:
        train(
            model, optimizer, 6, scaler=amp, unscale=False, max_norm=1.0,
            after_backward=lambda step: norms.append(total_norm(model) / SCALE),
        )  # fmt: skip
    first = monitor.samples[0]
    assert first.clip_scaled
    assert first.norm == pytest.approx(norms[0], rel=1e-4)
    assert first.limit == pytest.approx(1 / SCALE)
    assert first.used == pytest.approx(1 / SCALE, rel=1e-3)
    (clip,) = monitor.clips
    assert (clip.calls, clip.scaled, clip.active) == (6, 6, 6)
    assert clip.largest == pytest.approx(max(norms), rel=1e-4)
    assert "was one of 0.000977 in true units; call scaler.unscale_(optimizer) before it (GL201)" in clip.advice
    assert [(finding.condition, finding.code) for finding in monitor.findings] == [(Condition.CLIP_SCALED, "GL201")]


def test_a_limit_multiplied_by_the_scale_is_right() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    amp = scaler()
    with GradientMonitor(model, optimizer, amp, every=1) as monitor:
        train(model, optimizer, 4, scaler=amp, unscale=False, max_norm=1.0 * SCALE)
    assert monitor.samples[0].limit == 1.0
    assert monitor.findings == []


def test_a_step_beside_the_scaler_is_told() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    amp = scaler()
    with GradientMonitor(model, optimizer, amp, every=1) as monitor:
        backward(amp.scale(loss_of(model, torch.randn(4, 4))))
        norm = total_norm(model) / SCALE
        optimizer.step()
    assert monitor.samples[0].norm == pytest.approx(norm, rel=1e-5)
    assert [(finding.condition, finding.code) for finding in monitor.findings] == [(Condition.STEP_SCALED, "GL203")]


def test_a_disabled_scaler_is_none() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    amp = scaler(enabled=False)
    with GradientMonitor(model, optimizer, amp, every=1) as monitor:
        train(model, optimizer, 3, scaler=amp, max_norm=1.0)
    assert (monitor.steps, monitor.skipped, monitor.samples[0].scale) == (3, 0, 1.0)
    assert not monitor.samples[0].clip_scaled
    assert monitor.findings == []


@pytest.mark.parametrize("fused", [False, True])
def test_a_skipped_step_is_counted_and_is_no_finding(fused: bool) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=fused)
    amp = scaler()
    with GradientMonitor(model, optimizer, amp, every=3) as monitor:
        train(model, optimizer, 8, scaler=amp, max_norm=1.0, after_backward=lambda step: spoil(model, step, 3))
    assert (monitor.steps, monitor.skipped) == (8, 1)
    assert [sample.step for sample in monitor.samples] == [1, 4, 6]
    assert [sample.scale for sample in monitor.samples] == [SCALE, SCALE / 2, SCALE / 2]
    assert (monitor.clips[0].calls, monitor.clips[0].not_finite) == (7, 0)
    assert monitor.findings == []


@pytest.mark.parametrize("fused", [False, True])
def test_a_scaler_that_never_finds_a_scale_is_told_with_the_parameter(fused: bool) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=fused)
    amp = scaler(16.0)
    with GradientMonitor(model, optimizer, amp, every=2) as monitor:
        train(model, optimizer, 30, scaler=amp, after_backward=lambda step: spoil(model, step, step))
    assert monitor.skipped == 30
    (finding,) = monitor.findings
    assert finding.condition is Condition.SKIPPED_STEPS
    assert finding.layers == ("0.weight",)


def test_nan_without_a_scaler_names_the_parameter_even_if_the_clip_spreads_it() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def spoil_the_middle(step: int) -> None:
        gradient = model[2].weight.grad
        assert isinstance(gradient, torch.Tensor)
        gradient[0, 0] = math.nan if step == 2 else gradient[0, 0]

    with GradientMonitor(model, optimizer, every=1) as monitor:
        train(model, optimizer, 3, max_norm=1.0, after_backward=spoil_the_middle)
    (finding,) = monitor.findings
    assert (finding.condition, finding.step, finding.layers) == (Condition.NOT_FINITE, 2, ("2.weight",))
    assert finding.message.startswith("NaN in the gradient of 2.weight (1 of 6 parameters)")


def test_nan_between_samples_is_noticed_by_the_clip() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    before = weights(model)
    with GradientMonitor(model, optimizer, every=4) as monitor:
        for step in range(1, 5):
            train(model, optimizer, 1, max_norm=1.0, after_backward=lambda _, step=step: spoil(model, step, 2))  # type: ignore[misc]
            restore(model, before)
    (finding,) = monitor.findings
    assert (finding.condition, finding.step) == (Condition.NOT_FINITE, 2)
    assert finding.message.startswith("Inf in the gradient of 0.weight (1 of 6 parameters)")
    assert monitor.clips[0].not_finite == 1


def test_a_loop_that_skips_such_steps_itself_is_right() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with GradientMonitor(model, optimizer, every=1) as monitor:
        for step in range(1, 6):
            optimizer.zero_grad()
            backward(loss_of(model, torch.randn(4, 4)))
            spoil(model, step, 3)
            if clip_grad_norm_(model.parameters(), 1.0).isfinite():
                optimizer.step()
    assert monitor.steps == 4
    assert monitor.findings == []
    assert monitor.clips[0].not_finite == 1


def test_a_scaler_in_a_wrapper_is_found() -> None:
    class Wrapper:
        def __init__(self) -> None:
            self._scaler = scaler()

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    wrapper = Wrapper()
    with GradientMonitor(model, optimizer, wrapper, every=1) as monitor:
        backward(wrapper._scaler.scale(loss_of(model, torch.randn(4, 4))))
        norm = total_norm(model) / SCALE
        wrapper._scaler.step(optimizer)
    assert monitor.samples[0].norm == pytest.approx(norm, rel=1e-5)
