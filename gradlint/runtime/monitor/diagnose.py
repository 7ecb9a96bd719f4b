"""`diagnose_gradients` and `diagnose_nan`: one look at a model, right now. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from gradlint.runtime.layers import readable
from gradlint.runtime.monitor.data import Finding, Limits, Sample
from gradlint.runtime.monitor.diagnosis import GradientDiagnosis, NanDiagnosis
from gradlint.runtime.monitor.measure import Parcel, extremes, measure, numbers_of, total
from gradlint.runtime.monitor.observe import (
    Circumstances,
    Observation,
    beside_weights,
    broken,
    dead,
    lifeless,
    too_high,
    too_low,
    total_of,
    untrained,
)
from gradlint.runtime.monitor.operations import delicate, origin
from gradlint.runtime.monitor.parameters import (
    Roster,
    author_model,
    checked_model,
    sharded,
    torch_optimizer,
    trained_by,
)
from gradlint.runtime.monitor.remedies import remedies
from gradlint.runtime.monitor.scale import checked_scaler, stored_scale
from gradlint.runtime.monitor.trend import Trend


def diagnose_gradients(model: Any, optimizer: Any = None, scaler: Any = None) -> GradientDiagnosis:
    """The gradients that are there now: by layer, in true units, with what looks wrong. Print it.

    Of the optimizer's parameters if it is given, else of all of the model. `scaler` is asked whether the gradients
    are still multiplied by its scale.
    """
    model, inner = checked_model(model), None if optimizer is None else torch_optimizer(optimizer)
    scaler = checked_scaler(scaler)
    roster = Roster(model, inner)
    roster.refresh()
    parcel = Parcel()
    scale = stored_scale(scaler, inner)
    measurement = measure(roster.entries, parcel, scale)
    at = parcel.put([] if scale is None else [scale])
    numbers = parcel.open()
    layers, missing = measurement.layers(numbers, roster.rates()), roster.missing
    norm = total(layer.norm for layer in layers)
    sample = Sample(0, norm, norm, layers=layers, shard=sharded(model))
    return GradientDiagnosis(
        layers=layers,
        norm=norm,
        scale=numbers[at][0] if scale is not None else 1.0,
        missing=missing,
        frozen=tuple(name for name, p in roster.entries if not p.requires_grad),
        findings=tuple(_findings(sample, missing)),
        shard=sample.shard,
    )


def _findings(sample: Sample, missing: Sequence[str]) -> Iterator[Finding]:
    for o in _look(sample, missing, Limits()):
        yield Finding(
            o.condition, 0, o.severity, o.message, o.layers, o.code, remedies=remedies(o.condition, o.clipped)
        )


def _look(sample: Sample, missing: Sequence[str], limits: Limits) -> Iterator[Observation]:
    """What one look shows; nobody knows where the loss goes."""
    total_ = total_of(sample)
    if not sample.norm:
        if not sample.shard:  # a rank may hold no part of a small model
            yield lifeless(not sample.layers, "this moment")
        return
    if (bad := broken(total_, sample, Circumstances())) is not None:
        yield bad
        return
    if (high := too_high(total_, limits)) is not None:
        yield high
    yield from too_low(sample, Trend.ONCE, limits)
    yield from beside_weights(sample, limits, "")
    count = len(sample.layers) + len(missing)
    if still := [layer.name for layer in sample.layers if layer.norm == 0]:
        yield dead(still, count)
    if missing and not sample.shard:
        yield untrained(missing, count)


def diagnose_nan(
    loss: Any, model: Any, *, inputs: Any = None, optimizer: Any = None, scaler: Any = None
) -> NanDiagnosis:
    """Where a NaN or Inf comes from: the loss, the gradients or the parameters, in this order. Print it.

    Best called after the backward, before the step; a loss that is not finite is told before the backward as well.
    `inputs` (a tensor, or lists and dictionaries of them) are looked at, too.
    """
    inner = author_model(checked_model(model))
    trained = None if optimizer is None else torch_optimizer(optimizer)
    scaler = checked_scaler(scaler)
    named: dict[str, Tensor] = {readable(name): p for name, p in inner.named_parameters()}
    if trained is not None:
        known = {id(p) for p in named.values()}
        named |= {name: p for name, p in trained_by(trained) if id(p) not in known}
    value = loss if isinstance(loss, Tensor) else torch.tensor(float(loss))
    gradients = {name: p.grad for name, p in named.items() if p.grad is not None}
    scale = stored_scale(scaler, trained)
    near = list(delicate(value))
    made = origin(value, {id(p): name for name, p in named.items()}) if not_finite({"loss": value}) else None
    return NanDiagnosis(
        loss=_number(value),
        loss_finite=not not_finite({"loss": value}),
        graph=tuple(operation.short for operation in near),
        operation="" if made is None else made.said,
        likely=str(near[0]) if len(near) == 1 else "",
        inputs=not_finite(dict(tensors_in(inputs))),
        gradients=not_finite(gradients),
        parameters=not_finite(named),
        buffers=not_finite({readable(name): b for name, b in inner.named_buffers()}),
        state=() if trained is None else not_finite(dict(_state(trained, named))),
        measured=len(gradients),
        total=len(named),
        scale=None if scale is None else float(scale),
        half=any(gradient.dtype is torch.float16 for gradient in gradients.values()),
    )


def _number(loss: Tensor) -> float:
    return float(loss.detach().float().mean()) if loss.numel() else float("nan")


@torch.no_grad()
def not_finite(named: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The names of those that hold a NaN or an Inf: one copy to the host for each device."""
    parcel, names = Parcel(), []
    for name, tensor in named.items():
        if not (tensor.is_floating_point() or tensor.is_complex()):
            continue
        values = numbers_of(tensor)
        if values.numel():
            names.append(name)
            lowest, highest = extremes([values])
            # A sum could overflow by itself; a zero times the extremes is 0 only if both are finite.
            parcel.put([lowest[0] * 0 + highest[0] * 0])
    return tuple(name for name, number in zip(names, parcel.open(), strict=True) if number != 0)


def tensors_in(inputs: Any, name: str = "inputs") -> Iterator[tuple[str, Tensor]]:
    if isinstance(inputs, Tensor):
        yield name, inputs
    elif isinstance(inputs, Mapping):
        for key, value in inputs.items():
            yield from tensors_in(value, f"{name}[{key!r}]")
    elif isinstance(inputs, Sequence) and not isinstance(inputs, str | bytes):
        for i, value in enumerate(inputs):
            yield from tensors_in(value, f"{name}[{i}]")


def _state(optimizer: Optimizer, named: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    names = {id(p): name for name, p in named.items()}
    for parameter, state in optimizer.state.items():
        for key, value in state.items() if isinstance(state, Mapping) else ():
            if isinstance(value, Tensor):
                yield f"{names.get(id(parameter), '?')}: {key}", value
