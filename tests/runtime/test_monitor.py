"""GradientMonitor: right numbers, and training that does not notice it."""

from __future__ import annotations

import copy
import functools
import logging
import math
import pickle
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad as torch_clips
from torch.nn.utils import clip_grad_norm_

from gradlint.runtime import GradientMonitor
from gradlint.runtime.monitor.data import ClipVerdict, Condition
from tests.patience import PATIENCE
from tests.runtime.monitored import backward, is_watched, loss_of, network, same, total_norm, train, weights

ORIGINALS = {name: getattr(torch_clips, name) for name in ("clip_grad_norm_", "clip_grad_value_")}
WITH_NORM = getattr(torch_clips, "_clip_grads_with_norm_", None)
BOUND_EARLY = functools.partial(clip_grad_norm_, max_norm=1e-3)


def monitored(steps: int = 12, every: int = 3, **settings: Any) -> tuple[nn.Module, GradientMonitor]:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with GradientMonitor(model, optimizer, settings.get("scaler"), every=every) as monitor:
        train(model, optimizer, steps, told=monitor.loss, **settings)
    return model, monitor


# Numbers.


def test_a_sample_holds_the_numbers_of_each_parameter() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    with GradientMonitor(model, optimizer, every=1) as monitor:
        loss = loss_of(model, torch.randn(16, 4))
        monitor.loss(loss)
        backward(loss)
        expected = {name: (p.grad, p.detach().clone()) for name, p in model.named_parameters()}
        norm = total_norm(model)
        optimizer.step()
    (sample,) = monitor.samples
    assert [layer.name for layer in sample.layers] == list(expected)
    for layer in sample.layers:
        gradient, weight = expected[layer.name]
        assert gradient is not None
        assert layer.norm == pytest.approx(float(gradient.norm()), rel=1e-5)
        assert layer.mean == pytest.approx(float(gradient.mean()), rel=1e-4, abs=1e-8)
        assert layer.std == pytest.approx(float(gradient.std(correction=0)), rel=1e-4, abs=1e-7)
        assert layer.largest == float(gradient.abs().max())
        assert layer.ratio == pytest.approx(float(gradient.norm() / weight.norm()), rel=1e-5)
        assert (layer.elements, layer.axes) == (weight.numel(), weight.dim())
    assert sample.norm == sample.used == pytest.approx(norm, rel=1e-5)
    assert (sample.step, sample.rates) == (1, (0.25,))
    assert sample.loss == pytest.approx(loss.item())
    assert (sample.clipped, sample.limit, sample.label) == (None, None, "true units, at the step, no clip seen")


def test_norms_are_told_before_and_after_the_clip() -> None:
    seen: list[float] = []
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with GradientMonitor(model, optimizer, every=1) as monitor:
        train(model, optimizer, 4, max_norm=0.5, after_backward=lambda step: seen.append(total_norm(model)))
    assert [sample.norm for sample in monitor.samples] == pytest.approx(seen, rel=1e-5)
    assert [sample.used for sample in monitor.samples] == pytest.approx([0.5] * 4, rel=1e-3)
    assert all(sample.clipped and sample.limit == 0.5 for sample in monitor.samples)
    assert monitor.samples[0].label == "true units, before the clip"
    layers = monitor.samples[0].layers
    assert math.hypot(*(layer.norm for layer in layers)) == pytest.approx(seen[0], rel=1e-5)


def test_samples_are_taken_at_the_first_step_and_at_every_kth() -> None:
    _, monitor = monitored(steps=13, every=5)
    assert [sample.step for sample in monitor.samples] == [1, 5, 10]
    assert monitor.steps == 13


def test_the_loss_of_a_sample_is_the_mean_since_the_last_one() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    told: list[float] = []
    with GradientMonitor(model, optimizer, every=4) as monitor:

        def tell(loss: Tensor) -> None:
            told.append(loss.item())
            monitor.loss(loss)

        train(model, optimizer, 8, told=tell)
    expected = [told[0], sum(told[1:4]) / 3, sum(told[4:8]) / 4]
    assert [sample.loss for sample in monitor.samples] == pytest.approx(expected)


def test_of_a_long_run_older_samples_are_thinned_out() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with GradientMonitor(model, optimizer, every=1, keep=10) as monitor:
        train(model, optimizer, 60)
    steps = [sample.step for sample in monitor.samples]
    assert len(steps) <= 10
    assert steps == sorted(steps)
    assert steps[0] == 1
    assert steps[-4:] == [57, 58, 59, 60]


# Clips.


def test_a_clip_is_counted_at_every_step_not_only_at_samples() -> None:
    norms: list[float] = []
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with GradientMonitor(model, optimizer, every=50) as monitor:
        train(model, optimizer, 20, max_norm=1e-3, after_backward=lambda step: norms.append(total_norm(model)))
    (clip,) = monitor.clips
    assert (clip.function, clip.what, clip.limit) == ("clip_grad_norm_", "all parameters", 1e-3)
    assert (clip.calls, clip.active) == (20, 20)
    assert clip.verdict is ClipVerdict.ALWAYS
    high = float(torch.tensor(norms, dtype=torch.float64).quantile(0.9))
    assert clip.percentile90 == pytest.approx(high, rel=1e-5)
    assert clip.advice == f"limits every step: raise max_norm towards the 90th percentile, {high:.3g}"


def test_clips_bound_before_the_monitor_are_seen() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with GradientMonitor(model, optimizer, every=1) as monitor:
        backward(loss_of(model, torch.randn(4, 4)))
        BOUND_EARLY(model.parameters())
        optimizer.step()
    assert monitor.samples[0].limit == 1e-3


@pytest.mark.skipif(WITH_NORM is None, reason="torch clips without a function of its own for it")
def test_a_clip_with_a_norm_computed_before_is_seen() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with GradientMonitor(model, optimizer, every=1) as monitor:
        backward(loss_of(model, torch.randn(4, 4)))
        parameters = list(model.parameters())
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        torch.nn.utils.clip_grads_with_norm_(parameters, max_norm=1e-3, total_norm=norm)
        optimizer.step()
    assert monitor.samples[0].limit == 1e-3
    assert monitor.samples[0].used == pytest.approx(1e-3, rel=1e-2)


def test_value_clipping_is_judged_at_samples() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with GradientMonitor(model, optimizer, every=1) as monitor:
        train(model, optimizer, 6, after_backward=lambda step: torch_clips.clip_grad_value_(model.parameters(), 1e-4))
    (clip,) = monitor.clips
    assert (clip.function, clip.calls, clip.active, clip.percentile90) == ("clip_grad_value_", 6, 6, None)
    assert clip.advice == "limits every step: raise clip_value"
    assert monitor.samples[0].clipped
    assert monitor.samples[0].used < monitor.samples[0].norm


def test_the_clip_of_another_model_is_none_of_ours() -> None:
    model, other = network(), network(seed=5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with GradientMonitor(model, optimizer, every=1) as monitor:
        for each in (model, other):
            backward(loss_of(each, torch.randn(4, 4)))
        clip_grad_norm_(other.parameters(), 1e-3)
        optimizer.step()
    assert monitor.clips == []
    assert monitor.samples[0].clipped is None


def test_two_clips_for_two_parts_are_two() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with GradientMonitor(model, optimizer, every=1) as monitor:
        backward(loss_of(model, torch.randn(4, 4)))
        norm = total_norm(model)
        clip_grad_norm_(model[0].parameters(), 1e-3)
        clip_grad_norm_(model[2].parameters(), 1e3)
        optimizer.step()
    assert [(clip.what, clip.active) for clip in monitor.clips] == [("2 of 6 parameters", 1), ("2 of 6 parameters", 0)]
    assert monitor.samples[0].norm == pytest.approx(norm, rel=1e-5)
    assert monitor.samples[0].limit is None


def test_torch_still_warns_of_an_empty_generator() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    parameters = (p for p in model.parameters())
    list(parameters)
    with GradientMonitor(model, optimizer), pytest.warns(UserWarning, match="empty generator") as caught:
        clip_grad_norm_(parameters, 1.0)
    if WITH_NORM is not None:
        assert caught[0].filename == __file__


# Training does not notice.


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("amp", [False, True])
def test_weights_are_the_same_bit_for_bit(fused: bool, amp: bool) -> None:
    ends = []
    for watch in (False, True):
        model = network()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=fused)
        scaler = torch.amp.GradScaler("cpu") if amp else None
        monitor = GradientMonitor(model, optimizer, scaler, every=2)
        if watch:
            monitor.start()
        train(model, optimizer, 15, max_norm=0.5, scaler=scaler)
        monitor.close()
        ends.append((weights(model), torch.get_rng_state(), optimizer.state_dict()["state"]))
        assert len(monitor.samples) == (8 if watch else 0)
        assert monitor.data.notes == []
    (plain, rng, state), (watched, rng_watched, state_watched) = ends
    assert same(plain, watched)
    assert torch.equal(rng, rng_watched)
    assert all(torch.equal(state[i][key], state_watched[i][key]) for i in state for key in state[i])


def test_optimizers_are_saved_and_copied_as_ever() -> None:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, 1)
    before = pickle.dumps(optimizer.state_dict())
    whole = pickle.dumps(optimizer)
    with GradientMonitor(model, optimizer):
        assert pickle.dumps(optimizer.state_dict()) == before
        assert pickle.dumps(optimizer) == whole
        copied = copy.deepcopy(optimizer)
        assert not copied._optimizer_step_pre_hooks
        copy.deepcopy(model)


def test_nothing_is_left_behind() -> None:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters())
    step = vars(torch.amp.GradScaler)["step"]
    late = types.ModuleType("loaded_while_watching")
    sys.modules["loaded_while_watching"] = late
    try:
        with GradientMonitor(model, optimizer), GradientMonitor(model, optimizer):
            assert vars(torch.amp.GradScaler)["step"] is not step
            exec("from torch.nn.utils import clip_grad_value_", vars(late))
            assert vars(late)["clip_grad_value_"] is not ORIGINALS["clip_grad_value_"]
    finally:
        del sys.modules["loaded_while_watching"]
        sys.modules["loaded_while_watching"] = late
    assert not is_watched()
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    assert vars(torch.amp.GradScaler)["step"] is step
    assert vars(late)["clip_grad_value_"] is ORIGINALS["clip_grad_value_"]
    for name, original in ORIGINALS.items():
        assert getattr(torch_clips, name) is original
        assert getattr(torch.nn.utils, name) is original
    assert getattr(torch_clips, "_clip_grads_with_norm_", None) is WITH_NORM
    assert clip_grad_norm_ is ORIGINALS["clip_grad_norm_"]
    del sys.modules["loaded_while_watching"]


def test_monitors_may_leave_in_any_order() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    first, second = (GradientMonitor(model, optimizer, every=1) for _ in range(2))
    first.start()
    second.start()
    train(model, optimizer, 2, max_norm=1.0)
    first.close()
    train(model, optimizer, 2, max_norm=1.0)
    second.close()
    train(model, optimizer, 2, max_norm=1.0)
    assert (first.steps, second.steps) == (2, 4)
    assert (first.clips[0].calls, second.clips[0].calls) == (2, 4)
    assert not is_watched()


def test_exceptions_of_the_loop_pass_through() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def fail(step: int) -> None:
        if step == 4:
            raise KeyError("of the loop")

    with pytest.raises(KeyError, match="of the loop"), GradientMonitor(model, optimizer, every=1) as monitor:
        train(model, optimizer, 9, after_backward=fail)
    assert len(monitor.samples) == 3
    assert not is_watched()


def test_an_error_inside_is_told_once_and_training_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr("gradlint.runtime.monitor.watcher.read", fail)
    plain = network()
    train(plain, torch.optim.SGD(plain.parameters(), lr=0.01), 6, max_norm=1.0)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with caplog.at_level(logging.WARNING, "gradlint"), GradientMonitor(model, optimizer, every=1) as monitor:
        train(model, optimizer, 6, max_norm=1.0, told=monitor.loss)
    assert [record.message for record in caplog.records] == [
        "the monitor stopped at step 1: RuntimeError: a bug of ours (training goes on, unwatched)"
    ]
    assert same(weights(plain), weights(model))
    assert "the monitor stopped" in monitor.summary()


# What it is given.


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"model": 3}, TypeError, "model must be a torch.nn.Module, not int"),
        ({"optimizer": "adam"}, TypeError, "optimizer must be a torch.optim.Optimizer, not str"),
        ({"scaler": 1.0}, TypeError, "scaler must be a torch.amp.GradScaler or None, not float"),
        ({"every": 0}, ValueError, "every must be a whole number of at least 1, not 0"),
        ({"log": 5}, TypeError, "log must be a function"),
    ],
)
def test_what_it_cannot_use_it_says(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    model = network()
    given: dict[str, Any] = {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)} | arguments
    with pytest.raises(error, match=message):
        GradientMonitor(**given)


def test_the_summary_tells_what_was_seen() -> None:
    _, monitor = monitored(steps=12, max_norm=0.01)
    text = monitor.summary()
    assert text.startswith(
        "Sequential with AdamW: 12 steps, a sample every 3\ntotal norm (true units, before the clip)"
    )
    assert "clip_grad_norm_ of all parameters, limit 0.01: limits every step: raise max_norm towards" in text
    assert "0.weight" in text
    assert text.endswith("no findings")


def test_the_report_is_written_after_the_end(tmp_path: Path) -> None:
    _, monitor = monitored(max_norm=0.01)
    monitor.report(tmp_path / "gradients.html")
    assert "0.weight" in (tmp_path / "gradients.html").read_text(encoding="utf-8")


def test_a_step_without_gradients_is_told() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with GradientMonitor(model, optimizer, every=1) as monitor:
        train(model, optimizer, 4, after_backward=lambda step: optimizer.zero_grad())
    assert [finding.condition for finding in monitor.findings] == [Condition.NO_GRADIENTS]


@pytest.mark.slow
def test_without_torch_it_says_how_to_get_it() -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "import gradlint.runtime, gradlint.runtime.monitor.data\n"
        "try:\n    gradlint.runtime.GradientMonitor\n"
        "except ImportError as error:\n    print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ran.stdout == 'GradientMonitor needs PyTorch: pip install "torch-gradlint[runtime]"\n'


def test_the_package_alone_does_not_load_torch() -> None:
    script = "import sys, gradlint.runtime, gradlint.runtime.monitor.data; print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ran.stdout == "False\n"
