"""What a diagnosis says, as attributes for programs and as text for people. Without torch."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from gradlint.runtime.monitor.data import Finding, Layer
from gradlint.runtime.monitor.text import some, table


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
