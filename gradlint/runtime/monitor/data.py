"""What a monitor has seen: samples, findings, clips, and all of it as text. No torch: for pages, logs and programs."""

from __future__ import annotations

import dataclasses
import enum
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from gradlint.model import Severity


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on sizes are told. Rules of thumb, not laws: a summed loss leaves these ranges and trains well."""

    #: total norm
    exploding: float = 100.0
    vanishing: float = 1e-6
    #: total norm of one step over the median of those before it
    spike: float = 50.0
    #: total norm now over that of the first steps
    growth: float = 100.0
    #: gradients of late layers over those of early ones; from its square on it is told even while the loss falls
    late_over_early: float = 1000.0
    #: what one step moves a weight matrix by, over its norm
    update: float = 0.1
    #: share of a layer's units without any gradient
    dead_units: float = 0.5

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ValueError(f"the limit {each.name} must be a number above 0, not {value!r}")


class Condition(enum.Enum):
    """What a finding is about; the value is its name in logs and pages."""

    NOT_FINITE = "not-finite"
    NO_GRADIENTS = "no-gradients"
    DEAD_STEPS = "dead-steps"
    DEAD_LAYERS = "dead-layers"
    DEAD_UNITS = "dead-units"
    NEVER_TRAINED = "never-trained"
    NO_OPTIMIZER = "in-no-optimizer"
    FOREIGN_OPTIMIZER = "optimizer-of-another-model"
    RATE_ZERO = "learning-rate-zero"
    EVAL_MODE = "eval-mode"
    GRAPHS_KEPT = "graphs-kept"
    EXPLODING = "exploding"
    SPIKE = "spike"
    GROWING = "growing"
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
    #: norm of the parameter; None where nobody measured it
    weight: float | None = None
    #: one step moves the parameter by this × its gradient; None where the gradient's size is not the update's (Adam)
    rate: float | None = None

    @property
    def finite(self) -> bool:
        return math.isfinite(self.largest)


@dataclass(frozen=True, slots=True)
class Total:
    """All gradients of one optimizer step together, sampled or not."""

    step: int
    #: in true units, before the clip; None where no parameter had a gradient
    norm: float | None
    #: the mean of the losses that were told for this step
    loss: float | None = None
    #: the parameters with NaN or Inf, else those with the largest gradients; empty where only the clip's norm is known
    layers: tuple[str, ...] = ()
    #: max_norm of the clip of all parameters, in true units
    limit: float | None = None

    @property
    def finite(self) -> bool:
        return self.norm is None or math.isfinite(self.norm)


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
class Health:
    """What a sample shows beside sizes."""

    #: parameters that get gradients, that the optimizer does not hold, and that nobody changes
    left_out: tuple[str, ...] = ()
    #: the optimizer holds none of the model's parameters
    foreign: bool = False
    #: the model is in eval mode, and these kinds of layers behave otherwise for it: "Dropout"
    asleep: tuple[str, ...] = ()
    #: layers with units that had no gradient in the last samples, and their share
    units: tuple[tuple[str, float], ...] = ()
    #: earlier losses whose graphs are still alive
    kept: int = 0


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
    #: what to try, in this order
    remedies: tuple[str, ...] = ()
    #: the line that stepped the optimizer then: "train.py:31"; empty where it was noticed later
    line: str = ""


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
    #: the total norm of every step, skipped ones left out; of a long run the largest of each stretch
    totals: list[tuple[int, float]] = field(default_factory=list)
    #: the last steps that the gradient scaler skipped
    skips: list[int] = field(default_factory=list)
    #: over all steps: the median, and the largest with its step
    median: float | None = None
    largest: tuple[int, float] | None = None
    #: steps with a gradient
    seen: int = 0


# -- how often a clip acts ---------------------------------------------------------------------------------------------


#: rules of thumb: a clip that acts on at most this share of the steps is a safety net, from the other on it rules them
RARE = 0.1
CONSTANT = 0.9
#: what a clip of everything clips
ALL = "all parameters"
#: calls before anything is said
ENOUGH = 5


@dataclass(slots=True)
class ClipCalls:
    """The calls of one clip."""

    function: str
    what: str
    limit: float = math.nan
    calls: int = 0
    active: int = 0
    scaled: int = 0
    not_finite: int = 0
    #: the norms before the clip, in true units; eight bytes for each step
    norms: array[float] = field(default_factory=lambda: array("d"))
    #: what the gradients were multiplied by when it last saw scaled ones
    scale: float = 1.0

    @property
    def whole(self) -> bool:
        return self.what == ALL

    def count(self, norm: float, limit: float, scale: float | None) -> None:
        """A call that saw this norm; `scale` if the gradients were still multiplied by it."""
        self.limit = limit
        if scale is not None:
            self.scaled += 1
            self.scale = scale
        if not math.isfinite(norm):
            self.not_finite += 1
            return
        self.calls += 1
        self.active += norm > limit
        self.norms.append(norm / (scale or 1.0))

    def count_change(self, limit: float, active: bool) -> None:
        """A call of which only is known whether it changed the gradients."""
        self.limit = limit
        self.calls += 1
        self.active += active

    def result(self) -> Clip:
        verdict = self.verdict
        ordered = sorted(self.norms)
        known = len(ordered) > 0
        return Clip(
            self.function,
            self.what,
            self.limit,
            self.calls,
            self.active,
            verdict,
            self._advice(verdict, ordered),
            percentile(ordered, 0.5) if known else None,
            percentile(ordered, 0.9) if known else None,
            ordered[-1] if known else None,
            self.scaled,
            self.not_finite,
        )

    @property
    def verdict(self) -> ClipVerdict:
        if self.calls < ENOUGH:
            return ClipVerdict.UNKNOWN
        if not self.active:
            return ClipVerdict.NEVER
        rate = self.active / self.calls
        return ClipVerdict.SAFETY_NET if rate <= RARE else ClipVerdict.ALWAYS if rate >= CONSTANT else ClipVerdict.OFTEN

    def _advice(self, verdict: ClipVerdict, ordered: Sequence[float]) -> str:
        if self.scaled:
            return (
                f"saw gradients multiplied by the scale ({self.scale:g}): a limit of {self.limit:g} was one of "
                f"{self.limit / self.scale:.3g} in true units; call scaler.unscale_(optimizer) before it (GL201)"
            )
        if verdict is ClipVerdict.UNKNOWN:
            return f"not known yet: {self.calls} calls with a finite norm"
        high = f"{percentile(ordered, 0.9):.3g}" if ordered else ""
        percent = f"{100 * self.active / self.calls:.3g} %"
        if verdict is ClipVerdict.NEVER:
            return f"never acts: the largest norm was {ordered[-1]:.3g}" if ordered else "never acts"
        if verdict is ClipVerdict.SAFETY_NET:
            return f"safety net: it acts on {percent} of the steps"
        if verdict is ClipVerdict.OFTEN:
            towards = f"; the 90th percentile of the norms is {high}" if high else ""
            return f"limits {percent} of the steps{towards}"
        each = "limits every step" if self.active == self.calls else f"limits almost every step ({percent})"
        name = "clip_value" if self.function == "clip_grad_value_" else "max_norm"
        return f"{each}: raise {name} towards the 90th percentile, {high}" if high else f"{each}: raise {name}"


def percentile(ordered: Sequence[float], share: float) -> float:
    """Between the two nearest, as numpy does it."""
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


# -- as text -----------------------------------------------------------------------------------------------------------


#: layers that are shown of a large model
SHOWN = 12


def summary(data: MonitorData) -> str:
    skipped = f" ({data.skipped} skipped by the scaler)" if data.skipped else ""
    lines = [f"{data.model} with {data.optimizer}: {data.steps} steps{skipped}, a sample every {data.every}"]
    if data.samples:
        last = data.samples[-1]
        if data.median is not None and data.largest is not None:
            step, norm = data.largest
            lines += [f"total norm ({last.label}): median {data.median:.3g}, largest {norm:.3g} at step {step}"]
        clips = [f"{clip.function} of {clip.what}, limit {clip.limit:g}: {clip.advice}" for clip in data.clips]
        lines += clips or ["no clip seen"]
        lines += ["", f"step {last.step}: {_totals(last)}", *table(last.layers)]
    lines += ["", "findings (limits are rules of thumb):" if data.findings else silence(data)]
    lines += [line for finding in data.findings for line in _finding(finding)]
    lines += [f"note: {note}" for note in data.notes]
    return "\n".join(lines)


def _totals(sample: Sample) -> str:
    after = "" if sample.clipped is None else f", {sample.used:.3g} after the clip"
    scale = "" if sample.scale == 1 else f", scale {sample.scale:g}"
    loss = "" if sample.loss is None else f", loss {sample.loss:.4g}"
    rates = ", ".join(f"{rate:.3g}" for rate in sample.rates)
    return f"total norm {sample.norm:.3g}{after}, learning rate {rates}{scale}{loss}"


def silence(data: MonitorData) -> str:
    """What it means that there is no finding: nothing, where no gradient was seen."""
    if not data.steps:
        return "nothing can be said: no step of this optimizer was seen"
    if not data.seen:
        return f"nothing can be said: no gradient was seen in {data.steps} steps"
    return "no findings"


def tried(finding: Finding) -> str:
    """`; try, in this order: 1. …, 2. …`."""
    steps = "; ".join(f"{i}. {remedy}" for i, remedy in enumerate(finding.remedies, 1))
    return f" – try, in this order: {steps}" if steps else ""


def _finding(finding: Finding) -> list[str]:
    code = f" ({finding.code})" if finding.code else ""
    until = f" [until step {finding.until}]" if finding.until is not None else ""
    line = f", {finding.line}" if finding.line else ""
    head = f"  step {finding.step}{line}, {finding.severity.label}: {finding.message}{code}{until}"
    return [head, *(f"    {i}. {remedy}" for i, remedy in enumerate(finding.remedies, 1))]


def table(layers: Sequence[Layer], shown: int = SHOWN) -> list[str]:
    """The layers in columns; of many, those with the largest and the smallest gradients, in the order of the model."""
    ordered = sorted(layers, key=lambda layer: layer.norm if layer.finite else math.inf, reverse=True)
    few = shown // 3
    chosen = {id(layer) for layer in (ordered if len(layers) <= shown else ordered[: shown - few] + ordered[-few:])}
    rows: list[tuple[str, ...]] = [("parameter", "norm", "mean", "std", "max", "grad/param")]
    rows += [_row(layer) for layer in layers if id(layer) in chosen]
    rest = len(layers) - len(chosen)
    return [*_columns(rows), *([f"  … and {rest} more, neither the largest nor the smallest"] if rest else [])]


def _row(layer: Layer) -> tuple[str, ...]:
    numbers = (layer.norm, layer.mean, layer.std, layer.largest)
    return (layer.name, *(f"{n:.3g}" for n in numbers), "–" if layer.ratio is None else f"{layer.ratio:.3g}")


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]


def some(names: Sequence[str]) -> str:
    """`a.weight, b.weight, c.weight and 3 more`."""
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
