"""diagnose_gradients and diagnose_nan: what they say, and that they change nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from gradlint.model import Severity
from gradlint.runtime import diagnose_gradients, diagnose_nan
from gradlint.runtime.monitor.data import Condition
from gradlint.runtime.monitor.diagnosis import NanSource
from tests.runtime.monitored import backward, loss_of, network, same, total_norm, weights

BATCH = torch.linspace(-1, 1, 64).reshape(16, 4)


def state(model: nn.Module) -> list[Tensor]:
    """Weights and gradients."""
    return weights(model) + [p.grad.clone() for p in model.parameters() if p.grad is not None]


def test_healthy_gradients() -> None:
    model = network()
    backward(loss_of(model, BATCH))
    before = state(model)
    found = diagnose_gradients(model)
    assert found.norm == pytest.approx(total_norm(model), rel=1e-5)
    assert [layer.name for layer in found.layers] == [name for name, _ in model.named_parameters()]
    assert (found.findings, found.missing, found.finite) == ((), (), True)
    assert str(found).startswith(f"total norm {found.norm:.3g} (true units)\n  parameter")
    assert str(found).endswith("nothing looks wrong")
    assert same(before, state(model))


def test_gradients_are_divided_by_the_scale_until_they_are_unscaled() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    backward(scaler.scale(loss_of(model, BATCH)))
    norm = total_norm(model) / 1024
    for given in (optimizer, None):
        found = diagnose_gradients(model, given, scaler)
        assert found.norm == pytest.approx(norm, rel=1e-5)
        assert found.scale == 1024.0
    assert "(true units, stored × 1024)" in str(found)
    scaler.unscale_(optimizer)
    for given in (optimizer, None):
        found = diagnose_gradients(model, given, scaler)
        assert found.norm == pytest.approx(norm, rel=1e-5)
        assert found.scale == 1.0


def test_what_is_missing_or_frozen() -> None:
    model = network()
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    backward(loss_of(model[2:], torch.ones(2, 8)))
    model[2].bias.grad = None
    found = diagnose_gradients(model)
    assert (found.missing, found.frozen) == (("2.bias",), ("0.weight", "0.bias"))
    assert "no gradient: 2.bias (1 parameters)" in str(found)


def test_no_gradients_at_all() -> None:
    found = diagnose_gradients(network())
    assert [finding.condition for finding in found.findings] == [Condition.NO_GRADIENTS]
    assert str(found).startswith("no gradients\n")


@pytest.mark.parametrize(
    ("factor", "condition", "severity"),
    [(1e5, Condition.EXPLODING, Severity.WARNING), (1e-9, Condition.VANISHING, Severity.ADVICE)],
)
def test_sizes_out_of_range(factor: float, condition: Condition, severity: Severity) -> None:
    model = network()
    backward(loss_of(model, BATCH) * factor)
    (finding,) = diagnose_gradients(model).findings
    assert (finding.condition, finding.severity) == (condition, severity)
    assert "rule of thumb" in finding.message


def test_a_step_that_moves_the_weights_too_far() -> None:
    model = network()
    backward(loss_of(model, BATCH))
    slow, fast = (torch.optim.SGD(model.parameters(), lr=lr) for lr in (1e-3, 5.0))
    assert diagnose_gradients(model, slow).findings == ()
    (finding,) = diagnose_gradients(model, fast).findings
    assert finding.condition is Condition.LARGE_RATIO
    assert diagnose_gradients(model, torch.optim.AdamW(model.parameters(), lr=5.0)).findings == ()


def test_all_finite() -> None:
    model = network()
    loss = loss_of(model, BATCH)
    assert "call it after the backward" in str(diagnose_nan(loss, model))
    backward(loss)
    before = state(model)
    found = diagnose_nan(loss, model, inputs=BATCH, optimizer=torch.optim.AdamW(model.parameters()))
    assert (found.source, found.finite, found.hints) == (NanSource.NONE, True, ())
    assert str(found) == f"All finite: the loss ({loss.item():.4g}), 6 parameters and 6 gradients."
    assert same(before, state(model))


def test_a_loss_that_is_nan_is_the_loss_functions() -> None:
    model = network()
    loss = torch.log(model(BATCH) - 1e3).mean()
    found = diagnose_nan(loss, model)
    assert (found.source, found.parameters) == (NanSource.LOSS, ())
    assert found.graph == ("LogBackward0 (GL601)",)
    assert str(found).startswith(
        "The loss is NaN before any backward: log (LogBackward0, GL601) of a number that is not above 0 made it."
    )
    assert "LogBackward0 (GL601)" in str(found)


NAN = torch.full((16, 1), math.nan)

OPERATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sqrt (SqrtBackward0, GL603) made it": lambda out: torch.sqrt(out - 100).sum(),
    "exp (ExpBackward0, GL604) made it": lambda out: torch.exp(out * 0 + 1e4).mean(),
    "div (DivBackward0, GL602) by 0 made it": lambda out: (out / (out * 0)).sum(),
    "pow (PowBackward0, GL603) made it": lambda out: (out - 100).pow(0.5).sum(),
    "mse_loss (MseLossBackward0) was given it as `target`": lambda out: nn.functional.mse_loss(out, NAN),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_operation_that_made_it_is_in_the_headline(operation: str) -> None:
    model = network()
    loss = OPERATIONS[operation](model(BATCH))
    assert str(diagnose_nan(loss, model)).splitlines()[0].endswith(f"before any backward: {operation}.")


def test_a_layer_that_overflows_is_in_the_headline() -> None:
    model = network().half()
    model.get_parameter("4.weight").data.fill_(6e4)
    model.get_parameter("2.bias").data.fill_(10.0)
    loss = model(BATCH.half()).pow(2).mean()
    headline = str(diagnose_nan(loss, model)).splitlines()[0]
    assert "addmm (AddmmBackward0) with 4.bias, 4.weight made it" in headline


def test_after_the_backward_the_headline_names_what_is_likely() -> None:
    model = network()
    loss = torch.sqrt((model(BATCH) * 0).sum())
    backward(loss)
    found = diagnose_nan(loss, model)
    assert found.source is NanSource.GRADIENTS
    assert str(found).splitlines()[0].endswith("; sqrt (SqrtBackward0, GL603) made it, most likely.")
    loss = torch.log(torch.sqrt(model(BATCH) - 100)).mean()
    backward(loss)
    headline = str(diagnose_nan(loss, model)).splitlines()[0]
    assert headline.endswith("one of LogBackward0 (GL601), SqrtBackward0 (GL603) made it, most likely.")


def test_a_loss_that_is_infinite() -> None:
    model = network()
    found = diagnose_nan(1 / (model(BATCH) * 0).sum(), model)
    assert found.source is NanSource.LOSS
    assert str(found).startswith("The loss is infinite")


def test_inputs_and_parameters_that_were_broken_before_are_named() -> None:
    model = network()
    with torch.no_grad():
        model.get_parameter("2.weight")[0, 0] = math.nan
    bad = torch.full((2, 4), math.nan)
    found = diagnose_nan(loss_of(model, bad), model, inputs={"x": [BATCH, bad], "ids": torch.arange(3)})
    assert found.source is NanSource.LOSS
    assert found.inputs == ("inputs['x'][1]",)
    assert found.parameters == ("2.weight",)
    assert found.hints[0] == "the inputs hold NaN or Inf already: inputs['x'][1]"
    assert "look at that step first" in found.hints[1]


def test_gradients_that_are_nan_while_the_loss_is_finite() -> None:
    model = nn.Linear(2, 1)
    loss = torch.sqrt((model.weight * 0) ** 2).sum() + model.bias.sum()
    backward(loss)
    found = diagnose_nan(loss, model)
    assert (found.source, found.gradients) == (NanSource.GRADIENTS, ("weight",))
    assert "SqrtBackward0 (GL603)" in str(found)
    assert "weight (1 of 2)" in str(found)


def test_scaled_gradients_that_overflowed_are_the_scalers_business() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1e30)
    loss = loss_of(model, BATCH) * 1e10
    backward(scaler.scale(loss))
    found = diagnose_nan(loss, model, optimizer=optimizer, scaler=scaler)
    assert found.source is NanSource.GRADIENTS
    assert found.scale == pytest.approx(1e30)
    assert "scaler.step() skips the step" in found.hints[0]


def test_a_norm_that_a_clip_spread() -> None:
    model = network()
    loss = loss_of(model, BATCH)
    backward(loss)
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad.fill_(math.nan)
    found = diagnose_nan(loss, model)
    assert any("if a clip came before, it spread one bad norm" in hint for hint in found.hints)


def test_parameters_buffers_and_states_come_last() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.AdamW(model.parameters())
    loss = model(BATCH).sum()
    backward(loss)
    optimizer.step()
    with torch.no_grad():
        bias = model.get_parameter("0.bias")
        bias[0] = math.inf
        model.get_buffer("1.running_mean")[0] = math.nan
        optimizer.state[bias]["exp_avg"][0] = math.nan
    found = diagnose_nan(loss, model, optimizer=optimizer)
    assert (found.source, found.parameters) == (NanSource.PARAMETERS, ("0.bias",))
    assert (found.buffers, found.state) == (("1.running_mean",), ("0.bias: exp_avg",))
    assert "GL203" in str(found)


def test_large_finite_numbers_are_finite() -> None:
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.fill_(3e38)
    assert diagnose_nan(1.5, model).source is NanSource.NONE


def test_what_they_cannot_use_they_say() -> None:
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, not list"):
        diagnose_gradients([])
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, not Tensor"):
        diagnose_nan(network(), torch.ones(1))
