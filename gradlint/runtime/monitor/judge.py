"""What looks wrong in the samples: one finding when a condition begins, none while it lasts. Without torch.

All limits are rules of thumb. Where the loss is known to fall, nothing is said of sizes: training works.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from gradlint.model import Severity
from gradlint.runtime.monitor.data import (
    EXPLODING,
    LARGE_RATIO,
    LATE_OVER_EARLY,
    VANISHING,
    Condition,
    Finding,
    Layer,
    Sample,
)
from gradlint.runtime.monitor.text import some

#: samples with a loss before one can say whether it falls, and how many of the last ones are looked at
TREND = 4
RECENT = 10
#: it falls by more than the one share of itself, and rises by more than the other: a rise must be beyond doubt
FALL = 0.01
RISE = 0.1

#: sizes must be out of range for so many samples in a row, and back in range for as many before they count anew
PATIENCE = 3

#: skipped steps in a row that a scaler needs to find its scale, at most: 65536 is 2 to the 16
SKIPS = 20


class Trend(enum.Enum):
    """Where the loss goes."""

    UNTOLD = enum.auto()
    #: there is only one sample, and nobody to tell
    ONCE = enum.auto()
    #: told, but too few samples to say
    EARLY = enum.auto()
    FALLING = enum.auto()
    FLAT = enum.auto()
    RISING = enum.auto()


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known beside the sample."""

    #: steps since the last sample whose clip met a norm that is not finite, and that the scaler did not skip
    broken: tuple[int, ...] = ()
    #: in true units, the limit of a clip that saw scaled gradients; None where there is none
    true_limit: float | None = None
    #: the step was taken outside of scaler.step while the gradients were multiplied by this
    step_scale: float | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """A condition that holds in one sample."""

    condition: Condition
    severity: Severity
    message: str
    layers: tuple[str, ...] = ()
    code: str = ""
    #: samples in a row that it must hold
    patience: int = 1


@dataclass(slots=True)
class _Episode:
    held: int = 0
    clear: int = 0
    #: index of its finding, once it was told
    told: int | None = None


@dataclass(slots=True)
class Judge:
    """Follows conditions from sample to sample."""

    findings: list[Finding] = field(default_factory=list)
    _losses: list[float] = field(default_factory=list)
    _episodes: dict[Condition, _Episode] = field(default_factory=dict)

    def consider(self, sample: Sample, circumstances: Circumstances) -> list[Finding]:
        """The findings that begin with this sample."""
        if sample.loss is not None:
            self._losses = [*self._losses, sample.loss][-RECENT:]
        observations = list(observe(sample, circumstances, trend(self._losses)))
        held = {observation.condition for observation in observations}
        for condition, episode in self._episodes.items():
            if condition not in held:
                self._clear(episode, sample.step)
        return [new for o in observations if (new := self.hold(o, sample.step)) is not None]

    def hold(self, observation: Observation, step: int) -> Finding | None:
        episode = self._episodes.setdefault(observation.condition, _Episode())
        episode.held += 1
        episode.clear = 0
        if episode.told is not None or episode.held < observation.patience:
            return None
        episode.told = len(self.findings)
        finding = Finding(
            observation.condition, step, observation.severity, observation.message, observation.layers, observation.code
        )
        self.findings.append(finding)
        return finding

    def _clear(self, episode: _Episode, step: int) -> None:
        episode.held = 0
        episode.clear += 1
        if episode.told is not None and episode.clear >= PATIENCE:
            self.findings[episode.told] = dataclasses.replace(self.findings[episode.told], until=step)
            episode.told = None


def trend(losses: Sequence[float]) -> Trend:
    """The newer half against the older one."""
    if not losses:
        return Trend.UNTOLD
    if len(losses) < TREND:
        return Trend.EARLY
    half = len(losses) // 2
    older, newer = fmean(losses[:half]), fmean(losses[-half:])
    unit = max(abs(older), abs(newer))
    return Trend.FALLING if newer < older - FALL * unit else Trend.RISING if newer > older + RISE * unit else Trend.FLAT


def observe(sample: Sample, circumstances: Circumstances, loss: Trend) -> Iterator[Observation]:
    """The conditions that hold in this sample."""
    yield from _order(circumstances, sample.scale)
    broken = _broken(sample, circumstances)
    if broken is not None:
        yield broken
    elif not sample.layers:
        if not sample.shard:  # a rank may hold no part of a small model
            yield _missing()
    elif loss is not Trend.FALLING:
        yield from too_high(sample)
        if loss is not Trend.EARLY:
            yield from too_low(sample, loss)
        if loss is Trend.RISING:  # by itself the ratio says little: healthy networks have any, Adam does not mind it
            yield from beside_weights(sample, ", and the loss rises")


def _order(circumstances: Circumstances, scale: float) -> Iterator[Observation]:
    if circumstances.true_limit is not None:
        yield Observation(
            Condition.CLIP_SCALED,
            Severity.ERROR,
            f"the clip sees gradients multiplied by the scale ({scale:g}): its limit in true units is "
            f"{circumstances.true_limit:.3g}; call scaler.unscale_(optimizer) before it",
            code="GL201",
        )
    if circumstances.step_scale is not None:
        yield Observation(
            Condition.STEP_SCALED,
            Severity.ERROR,
            "the optimizer stepped without scaler.step(): if the loss was scaled, the update used gradients × "
            f"{circumstances.step_scale:g}",
            code="GL203",
        )


def _broken(sample: Sample, circumstances: Circumstances) -> Observation | None:
    names = tuple(layer.name for layer in sample.layers if not layer.finite)
    loss = "" if sample.loss is None or math.isfinite(sample.loss) else f"the loss is {sample.loss:g}"
    if names:
        first = next(layer for layer in sample.layers if not layer.finite)
        kind = "NaN" if math.isnan(first.largest) else "Inf"
        what = f"{kind} in the gradient of {some(names)} ({len(names)} of {len(sample.layers)} parameters)"
        where = f"; {loss} already: look at the loss function first" if loss else ""
    elif loss:
        what, where = loss, " while the gradients are finite"
    elif circumstances.broken:
        what, where = f"the clip met a norm that is not finite at step {circumstances.broken[0]}", ""
    else:
        return None
    hint = "; diagnose_nan(loss, model) tells where it begins"
    return Observation(Condition.NOT_FINITE, Severity.ERROR, f"{what}{where}{hint}", names)


def _missing() -> Observation:
    message = "no parameter has a gradient at the step: they were cleared before it, or no backward reached them"
    return Observation(Condition.NO_GRADIENTS, Severity.WARNING, message, patience=PATIENCE, code="GL403")


def too_high(sample: Sample) -> Iterator[Observation]:
    if sample.norm > EXPLODING:
        after = f", {sample.used:.3g} after the clip" if sample.clipped else ""
        yield Observation(
            Condition.EXPLODING,
            Severity.WARNING,
            f"exploding: the total norm is {sample.norm:.3g}{after} (rule of thumb: over {EXPLODING:g})",
            _largest(sample.layers),
        )


def too_low(sample: Sample, loss: Trend) -> Iterator[Observation]:
    if sample.norm < VANISHING:
        size = f"{sample.norm:.3g}" if sample.norm else "exactly 0"
        message = f"vanishing: the total norm is {size} (rule of thumb: under {VANISHING:g}){_told(loss)}"
        yield Observation(Condition.VANISHING, _severity(loss), message, patience=PATIENCE)
    if (depth := late_over_early(sample.layers)) is not None and depth.ratio > LATE_OVER_EARLY:
        yield Observation(
            Condition.VANISHING_EARLY,
            _severity(loss),
            f"vanishing with depth: gradients of late layers ({depth.late}) are {depth.ratio:.3g} times those of early "
            f"ones ({depth.early}; rule of thumb: over {LATE_OVER_EARLY:g}){_told(loss)}",
            (depth.early, depth.late),
            patience=PATIENCE,
        )


def beside_weights(sample: Sample, why: str, rate: float = 1.0) -> Iterator[Observation]:
    """Layers whose gradient, times `rate`, is too large beside their weights."""
    large = sorted((x for x in sample.layers if _too_large(x, sample, rate)), key=lambda x: -(x.ratio or 0))
    if large:
        names = tuple(layer.name for layer in large)
        ratio = (large[0].ratio or 0) * sample.used / sample.norm
        message = (
            f"large beside its weights: the gradient of {some(names)} has {ratio:.3g} of the parameter's norm "
            f"(rule of thumb: over {LARGE_RATIO:g}){why}"
        )
        yield Observation(Condition.LARGE_RATIO, Severity.WARNING, message, names, patience=PATIENCE)


def _told(loss: Trend) -> str:
    if loss is Trend.UNTOLD:
        return "; that is fine while the loss falls, tell it by monitor.loss(loss)"
    if loss is Trend.ONCE:
        return "; that is fine while the loss falls"
    return ", and the loss does not fall: converged, or stuck"


def _severity(loss: Trend) -> Severity:
    return Severity.ADVICE if loss in (Trend.UNTOLD, Trend.ONCE) else Severity.WARNING


def _too_large(layer: Layer, sample: Sample, rate: float) -> bool:
    """Of weight matrices only, biases begin at zero; and of what the step uses, after the clip."""
    if layer.axes < 2 or layer.ratio is None or not sample.norm:
        return False
    return layer.ratio * rate * sample.used / sample.norm > LARGE_RATIO


@dataclass(frozen=True, slots=True)
class Depth:
    """Gradients of late layers over those of early ones, and a name for each side."""

    ratio: float
    early: str
    late: str


def late_over_early(layers: Sequence[Layer]) -> Depth | None:
    """Typical numbers (root mean squares, medians) of the first and of the last third of the weight matrices.

    The order is the one in which the model names its parameters; biases and norms are left out: their gradients are
    of another size at any depth.
    """
    matrices = [layer for layer in layers if layer.axes >= 2]
    third = len(matrices) // 3
    if len(matrices) < 4:
        return None
    early, late = (median(_typical(layer) for layer in part) for part in (matrices[:third], matrices[-third:]))
    if not late:
        return None
    return Depth(late / early if early else math.inf, matrices[0].name, matrices[-1].name)


def _typical(layer: Layer) -> float:
    return layer.norm / math.sqrt(layer.elements)


def _largest(layers: Sequence[Layer]) -> tuple[str, ...]:
    return tuple(layer.name for layer in sorted(layers, key=lambda layer: -layer.norm)[:3])
