"""What a monitor has seen: samples, findings, clips. Plain data, without torch, for pages, logs and programs."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field

from gradlint.model import Severity

#: rules of thumb, not laws: a summed loss or an unnormalised target can leave these ranges and train well
EXPLODING = 100.0
VANISHING = 1e-6
LATE_OVER_EARLY = 1000.0
LARGE_RATIO = 0.1


class Condition(enum.Enum):
    """What a finding is about; the value is its name in logs and pages."""

    NOT_FINITE = "not-finite"
    NO_GRADIENTS = "no-gradients"
    EXPLODING = "exploding"
    VANISHING = "vanishing"
    VANISHING_EARLY = "vanishing-early-layers"
    LARGE_RATIO = "large-ratio"
    SKIPPED_STEPS = "skipped-steps"
    CLIP_SCALED = "clip-scaled-gradients"
    STEP_SCALED = "step-bypasses-scaler"


class ClipVerdict(enum.Enum):
    """How often a clip acts, in words."""

    NEVER = "never acts"
    SAFETY_NET = "safety net"
    OFTEN = "limits many steps"
    ALWAYS = "limits every step"
    #: too few steps, or norms that no clip can judge (not finite)
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Layer:
    """The gradient of one parameter, in true units, before the clip."""

    name: str
    norm: float
    mean: float
    std: float
    #: the largest absolute value
    largest: float
    #: norm of the gradient / norm of the parameter; None where the parameter is all zeros
    ratio: float | None
    elements: int
    #: how many axes the parameter has: biases and norms have 1, weight matrices 2 or more
    axes: int = 2

    @property
    def finite(self) -> bool:
        return math.isfinite(self.largest)


@dataclass(frozen=True, slots=True)
class Sample:
    """All gradients of one optimizer step, in true units."""

    #: counts the steps of this optimizer from 1, skipped ones too
    step: int
    #: the total norm before the clip (and at the step, where no clip was seen)
    norm: float
    #: the total norm that the step used: after the clip
    used: float
    #: max_norm (or clip_value) of the clip that was seen in this step
    limit: float | None = None
    #: the clip changed the gradients; None where none was seen
    clipped: bool | None = None
    #: the gradient scaler's scale; 1 without one
    scale: float = 1.0
    #: the clip saw gradients that were still multiplied by the scale
    clip_scaled: bool = False
    #: learning rates of the parameter groups
    rates: tuple[float, ...] = ()
    #: the mean of the losses told since the last sample; None where none was
    loss: float | None = None
    layers: tuple[Layer, ...] = ()
    #: these are norms of this rank's shards (FSDP), not of whole gradients
    shard: bool = False
    #: seconds since the monitor started
    time: float = 0.0

    @property
    def finite(self) -> bool:
        """No gradient holds a NaN or an Inf."""
        return all(layer.finite for layer in self.layers)

    @property
    def label(self) -> str:
        """`true units, before the clip, local shard`: what `norm` and the layers are."""
        where = "at the step, no clip seen" if self.clipped is None else "before the clip"
        return f"true units, {where}{', local shard' if self.shard else ''}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition that began at `step`; `until` is the first sampled step at which it was over."""

    condition: Condition
    step: int
    severity: Severity
    message: str
    #: the parameters it is about, the worst first
    layers: tuple[str, ...] = ()
    #: the rule that explains it, where there is one: "GL201"
    code: str = ""
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Clip:
    """What one clip of the training loop did, over all steps."""

    #: the function: `clip_grad_norm_`, `clip_grad_value_`
    function: str
    #: what it clips: "all parameters", "12 of 30 parameters"
    what: str
    #: the last max_norm or clip_value it was given
    limit: float
    #: calls that could be judged, and calls in which it changed the gradients
    calls: int
    active: int
    verdict: ClipVerdict
    #: the verdict in a sentence, with the numbers behind it
    advice: str
    #: of the norms before the clip, in true units; None where they are not known (value clipping, shards)
    median: float | None = None
    percentile90: float | None = None
    largest: float | None = None
    #: calls that saw gradients multiplied by the scale
    scaled: int = 0
    #: calls whose norm was NaN or Inf; they are not in `calls`
    not_finite: int = 0

    @property
    def rate(self) -> float:
        """The share of calls in which it acted."""
        return self.active / self.calls if self.calls else 0.0


@dataclass(slots=True)
class MonitorData:
    """All that a monitor has seen."""

    #: class names: "GPT", "AdamW"
    model: str
    optimizer: str
    every: int
    #: optimizer steps so far, skipped ones too
    steps: int = 0
    #: steps that the gradient scaler skipped
    skipped: int = 0
    #: tensors and numbers that the optimizer trains
    parameters: int = 0
    elements: int = 0
    scaler: bool = False
    #: of a long run the older ones are thinned out
    samples: list[Sample] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    clips: list[Clip] = field(default_factory=list)
    #: things worth telling: "norms are of this rank's shards", "the monitor stopped at step 12: …"
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
