"""`diagnose_gradients` and `diagnose_nan`: one look at a model, right now. Nothing is changed."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from gradlint.runtime.layers import readable
from gradlint.runtime.monitor import observations
from gradlint.runtime.monitor.data import Finding, Layer, Limits, Sample, some, table
from gradlint.runtime.monitor.judge import finding_of
from gradlint.runtime.monitor.measurement import (
    Numbers,
    Roster,
    Transfer,
    author_model,
    checked_model,
    checked_scaler,
    extremes,
    measure,
    sharded,
    stored_scale,
    torch_optimizer,
    total,
    trained_by,
)
from gradlint.runtime.norms import numbers_of
from gradlint.runtime.operations import delicate, origin


@dataclass(frozen=True, slots=True)
class GradientDiagnosis:
    """All gradients of a model at one moment, in true units."""

    layers: tuple[Layer, ...]
    #: the total norm
    norm: float
    #: what the gradients were multiplied by as they were stored; 1 where they were true
    scale: float = 1.0
    #: parameters without a gradient, and parameters that want none
    missing: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    #: these are this rank's shards
    shard: bool = False

    @property
    def finite(self) -> bool:
        return all(layer.finite for layer in self.layers)

    def __str__(self) -> str:
        units = "true units" if self.scale == 1 else f"true units, stored × {self.scale:g}"
        head = f"total norm {self.norm:.3g} ({units}{', local shard' if self.shard else ''})"
        lines = [head, *table(self.layers)] if self.layers else ["no gradients"]
        if self.missing:
            lines.append(f"no gradient: {some(self.missing)} ({len(self.missing)} parameters)")
        if self.frozen:
            lines.append(f"frozen: {len(self.frozen)} parameters")
        lines += [f"{f.severity.label}: {f.message}{f' ({f.code})' if f.code else ''}" for f in self.findings]
        return "\n".join(lines if self.findings else [*lines, "nothing looks wrong"])


class NanSource(enum.Enum):
    """Where the first number that is not finite was found."""

    LOSS = "loss"
    GRADIENTS = "gradients"
    PARAMETERS = "parameters"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class NanDiagnosis:
    """The decision path: the loss before the backward, then the gradients, then the parameters."""

    loss: float
    loss_finite: bool
    #: delicate operations near the loss: "LogBackward0 (GL601)"
    graph: tuple[str, ...] = ()
    #: the names of those that hold a NaN or an Inf
    inputs: tuple[str, ...] = ()
    gradients: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    #: of the optimizer: "fc.weight: exp_avg_sq"
    state: tuple[str, ...] = ()
    #: parameters that have a gradient, of how many
    measured: int = 0
    total: int = 0
    #: what the gradients are still multiplied by; None where they are true
    scale: float | None = None
    #: some gradients are float16
    half: bool = False
    #: the operation that made the loss what it is: "log (LogBackward0, GL601) of a number that is not above 0 made it";
    #: empty where the backward has freed what would tell
    operation: str = ""
    #: the only delicate operation near the loss
    likely: str = ""

    @property
    def source(self) -> NanSource:
        if not self.loss_finite:
            return NanSource.LOSS
        if self.gradients:
            return NanSource.GRADIENTS
        return NanSource.PARAMETERS if self.parameters or self.buffers or self.state else NanSource.NONE

    @property
    def finite(self) -> bool:
        return self.source is NanSource.NONE

    @property
    def hints(self) -> tuple[str, ...]:
        """What to look at, the likeliest first."""
        return {
            NanSource.LOSS: self._loss_hints,
            NanSource.GRADIENTS: self._gradient_hints,
            NanSource.PARAMETERS: self._parameter_hints,
            NanSource.NONE: self._no_hints,
        }[self.source]()

    def __str__(self) -> str:
        return "\n".join([self._verdict(), *(f"  - {hint}" for hint in self.hints)])

    def _verdict(self) -> str:
        if self.source is NanSource.LOSS:
            kind = "NaN" if math.isnan(self.loss) else "infinite"
            return f"The loss is {kind} before any backward: {self._maker()}."
        if self.source is NanSource.GRADIENTS:
            which = f"{some(self.gradients)} ({len(self.gradients)} of {self.measured})"
            made = f"; {self._nearby()}" if self.graph and self.scale is None else ""
            return f"The loss is finite ({self.loss:.4g}), but these gradients are not: {which}{made}."
        if self.source is NanSource.PARAMETERS:
            which = some(self.parameters or self.buffers or self.state)
            return f"Loss and gradients are finite, but these are not: {which}."
        checked = f"{self.total} parameters and {self.measured} gradients"
        return f"All finite: the loss ({self.loss:.4g}), {checked}."

    def _maker(self) -> str:
        if self.parameters:
            return f"the parameters hold it already ({some(self.parameters)})"
        if self.inputs:
            return f"the inputs hold it already ({some(self.inputs)})"
        if self.operation:
            return self.operation
        return self._nearby() if self.graph else "the forward pass or the loss function made it"

    def _nearby(self) -> str:
        """What made it, as far as the names of the graph's nodes tell."""
        if self.likely:
            return f"{self.likely} made it, most likely"
        return f"one of {', '.join(self.graph)} made it, most likely"

    def _loss_hints(self) -> tuple[str, ...]:
        hints = []
        if self.inputs:
            hints.append(f"the inputs hold NaN or Inf already: {some(self.inputs)}")
        if self.parameters:
            hints.append(
                f"the parameters got it from an earlier step: {some(self.parameters)}; look at that step first"
            )
        if self.buffers:
            hints.append(f"so do the buffers (running statistics?): {some(self.buffers)}")
        if self.graph:
            hints.append(f"delicate operations near the loss: {', '.join(self.graph)}")
        if not hints:
            hints.append(
                "parameters and buffers are finite: look at the inputs (pass them as inputs=…) and at the loss"
            )
        return tuple(hints)

    def _gradient_hints(self) -> tuple[str, ...]:
        hints = []
        if self.scale is not None:
            hints.append(
                f"they are still multiplied by the scale ({self.scale:g}): an overflow is normal now and then, "
                "scaler.step() skips the step and update() lowers the scale; clip and log only after scaler.unscale_()"
            )
        elif self.half:
            hints.append("gradients are float16 and not scaled: use torch.amp.GradScaler, or bfloat16 (GL212)")
        if self.graph:
            hints.append(f"delicate operations near the loss, finite forward, not backward: {', '.join(self.graph)}")
        if self.measured > 1 and len(self.gradients) == self.measured:
            hints.append(
                "all of them: if a clip came before, it spread one bad norm to every gradient; look before the clip, "
                "or use clip_grad_norm_(…, error_if_nonfinite=True)"
            )
        if self.parameters:
            hints.append(f"the parameters are not finite either: {some(self.parameters)}")
        hints.append("torch.autograd.set_detect_anomaly(True) names the operation")
        return tuple(hints)

    def _parameter_hints(self) -> tuple[str, ...]:
        hints = ["an earlier update wrote them: too large a learning rate, or a step on gradients that were not finite"]
        if self.state:
            hints.append(f"the optimizer's state holds NaN or Inf, and will write it again: {some(self.state)}")
        if self.buffers:
            hints.append(f"buffers (running statistics?): {some(self.buffers)}")
        hints.append("with a GradScaler: scaler.step(optimizer), not optimizer.step(), skips such steps (GL203)")
        return tuple(hints)

    def _no_hints(self) -> tuple[str, ...]:
        hints = []
        if self.inputs:
            hints.append(f"but the inputs hold NaN or Inf: {some(self.inputs)}")
        if not self.measured:
            hints.append("there are no gradients: call it after the backward, before zero_grad()")
        return tuple(hints)


# -- one look ----------------------------------------------------------------------------------------------------------


def diagnose_gradients(model: Any, optimizer: Any = None, scaler: Any = None) -> GradientDiagnosis:
    """The gradients that are there now: by layer, in true units, with what looks wrong. Print it.

    Of the optimizer's parameters if it is given, else of all of the model. `scaler` is asked whether the gradients
    are still multiplied by its scale.
    """
    model, inner = checked_model(model), None if optimizer is None else torch_optimizer(optimizer)
    scaler = checked_scaler(scaler)
    roster = Roster(model, inner)
    roster.refresh()
    transfer = Transfer()
    scale = stored_scale(scaler, inner)
    measurement = measure(roster.entries, transfer, scale)
    transfer.open()
    layers, missing = measurement.layers(roster.rates()), roster.missing
    norm = total(layer.norm for layer in layers)
    sample = Sample(0, norm, norm, layers=layers, shard=sharded(model))
    return GradientDiagnosis(
        layers=layers,
        norm=norm,
        scale=1.0 if scale is None else float(scale),
        missing=missing,
        frozen=tuple(name for name, p in roster.entries if not p.requires_grad),
        findings=tuple(finding_of(seen, 0) for seen in _look(sample, missing, Limits())),
        shard=sample.shard,
    )


def _look(sample: Sample, missing: Sequence[str], limits: Limits) -> Iterator[observations.Observation]:
    """What one look shows; nobody knows where the loss goes."""
    total_ = observations.total_of(sample)
    if not sample.norm:
        if not sample.shard:  # a rank may hold no part of a small model
            yield observations.lifeless(not sample.layers, "this moment")
        return
    if (bad := observations.broken(total_, sample, observations.Circumstances())) is not None:
        yield bad
        return
    if (high := observations.too_high(total_, limits)) is not None:
        yield high
    yield from observations.too_low(sample, observations.Trend.ONCE, limits)
    yield from observations.beside_weights(sample, limits, "")
    count = len(sample.layers) + len(missing)
    if still := [layer.name for layer in sample.layers if layer.norm == 0]:
        yield observations.dead(still, count)
    if missing and not sample.shard:
        yield observations.untrained(missing, count)


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
        loss=float(value.detach().float().mean()) if value.numel() else math.nan,
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


@torch.no_grad()
def not_finite(named: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The names of those that hold a NaN or an Inf: one copy to the host for each device."""
    transfer = Transfer()
    found: dict[str, Numbers] = {}
    for name, tensor in named.items():
        if not (tensor.is_floating_point() or tensor.is_complex()):
            continue
        values = numbers_of(tensor)
        if values.numel():
            lowest, highest = extremes([values])
            # A sum could overflow by itself; a zero times the extremes is 0 only if both are finite.
            found[name] = transfer.put(lowest[0] * 0 + highest[0] * 0)
    transfer.open()
    return tuple(name for name, numbers in found.items() if numbers.first != 0)


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
