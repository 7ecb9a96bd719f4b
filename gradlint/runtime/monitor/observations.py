"""What looks wrong in the gradients of one step, and where losses and norms go. Without torch; the judge follows it.

All limits are rules of thumb. Where the loss is known to fall, little is said of sizes: training works. A trend is
judged against its own spread, so that noise is neither a fall nor a rise.
"""

from __future__ import annotations

import enum
import math
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from gradlint.model import Severity
from gradlint.runtime.monitor.data import Condition, Health, Layer, Limits, Sample, Total, some

#: losses before one can say that they fall or rise, and before one can say that they do neither
ENOUGH_LOSSES = 8
PLENTY = 30
#: how many of the last ones are looked at
LOSSES = 100
#: it falls or rises by at least this share of itself, and by so many standard errors: a rise must be beyond doubt
FALL, SURE_FALL = 0.01, 2.0
RISE, SURE_RISE = 0.1, 4.0


class Trend(enum.Enum):
    """Where the loss goes."""

    UNTOLD = enum.auto()
    #: there is only one look, and nobody to tell
    ONCE = enum.auto()
    #: told, but too few of them to say
    EARLY = enum.auto()
    FALLING = enum.auto()
    FLAT = enum.auto()
    RISING = enum.auto()


def change(older: Sequence[float], newer: Sequence[float]) -> Trend:
    """FALLING, RISING or FLAT, from one stretch of losses to another."""
    before, after = fmean(older), fmean(newer)
    unit = max(abs(before), abs(after))
    error = math.sqrt(_variance(older, before) / len(older) + _variance(newer, after) / len(newer))
    moved = after - before
    if -moved > max(FALL * unit, SURE_FALL * error):
        return Trend.FALLING
    return Trend.RISING if moved > max(RISE * unit, SURE_RISE * error) else Trend.FLAT


def _variance(values: Sequence[float], mean: float) -> float:
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


class Losses:
    """The losses that were told, one for each step."""

    def __init__(self, recent: int = LOSSES) -> None:
        self._first: list[float] = []
        self._recent: deque[float] = deque(maxlen=recent)

    def tell(self, loss: float) -> None:
        if math.isfinite(loss):  # one that is not finite is told of by itself
            if len(self._first) < ENOUGH_LOSSES:
                self._first.append(loss)
            self._recent.append(loss)

    @property
    def trend(self) -> Trend:
        """The newer half of the last ones against the older one."""
        if not self._recent:
            return Trend.UNTOLD
        if len(self._recent) < ENOUGH_LOSSES:
            return Trend.EARLY
        losses = list(self._recent)
        half = len(losses) // 2
        found = change(losses[:half], losses[-half:])
        return Trend.EARLY if found is Trend.FLAT and len(losses) < PLENTY else found

    @property
    def trains(self) -> bool:
        """It falls, or has fallen since the first steps and does not rise: large gradients are no trouble then."""
        trend = self.trend
        if trend in (Trend.UNTOLD, Trend.EARLY, Trend.RISING):
            return False
        return trend is Trend.FALLING or change(self._first, list(self._recent)[-ENOUGH_LOSSES:]) is Trend.FALLING


#: norms that a step is compared with, and how many there must be
NORMS = 100
ENOUGH_NORMS = 20
#: points of the curve that is shown of a long run
SHOWN = 1000


class Totals:
    """Sixteen bytes for each step."""

    def __init__(self) -> None:
        self._steps = array("q")
        self._norms = array("d")
        self._recent: deque[float] = deque(maxlen=NORMS)
        self._usual: float | None = None
        self._first: float | None = None

    def add(self, step: int, norm: float | None) -> None:
        if norm is None:
            return
        self._steps.append(step)
        self._norms.append(norm)
        if math.isfinite(norm) and norm > 0:
            self._recent.append(norm)
            # Sorting them costs some microseconds; the median of a hundred does not change from one step to the next.
            if len(self._recent) >= ENOUGH_NORMS and (self._usual is None or len(self._norms) % 10 == 0):
                self._usual = median(self._recent)
                if self._first is None:
                    self._first = self._usual

    @property
    def count(self) -> int:
        return len(self._norms)

    @property
    def usual(self) -> float | None:
        """The median of the last ones; None while they are too few."""
        return self._usual

    @property
    def growth(self) -> float:
        """The usual norm now over that of the first steps; 1 while one cannot say."""
        full = len(self._recent) == NORMS and len(self._norms) >= 2 * NORMS
        return self._usual / self._first if full and self._usual and self._first else 1.0

    @property
    def last(self) -> list[tuple[int, float]]:
        """The last five steps."""
        return list(zip(self._steps[-5:], self._norms[-5:], strict=True))

    @property
    def median(self) -> float | None:
        finite = [norm for norm in self._norms if math.isfinite(norm)]
        return median(finite) if finite else None

    @property
    def largest(self) -> tuple[int, float] | None:
        finite = [(norm, -step) for step, norm in zip(self._steps, self._norms, strict=True) if math.isfinite(norm)]
        return (-max(finite)[1], max(finite)[0]) if finite else None

    @property
    def curve(self) -> list[tuple[int, float]]:
        """All of them; of a long run, the largest of each stretch, a NaN before anything."""
        stretch = -(-len(self._norms) // SHOWN)
        points = list(zip(self._steps, self._norms, strict=True))
        if stretch <= 1:
            return points
        parts = (points[at : at + stretch] for at in range(0, len(points), stretch))
        return [max(part, key=lambda point: math.inf if math.isnan(point[1]) else point[1]) for part in parts]


# -- what looks wrong --------------------------------------------------------------------------------------------------


#: sizes must be out of range for so many samples in a row, and back in range for as many before they count anew
PATIENCE = 3
#: graphs of earlier steps that are alive, and steps with a learning rate of 0, that are too many
KEPT = 10


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known beside the sample."""

    #: in true units, the limit of a clip that saw scaled gradients; None where there is none
    true_limit: float | None = None
    #: the step was taken outside of scaler.step while the gradients were multiplied by this
    step_scale: float | None = None
    #: parameters that want a gradient and have none
    missing: tuple[str, ...] = ()
    health: Health = field(default_factory=Health)
    #: the operation that made the loss what it is, where it is not finite
    origin: str = ""
    #: operations near the loss that can turn finite numbers into NaN and Inf
    delicate: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """A condition that holds at one step."""

    condition: Condition
    severity: Severity
    message: str
    layers: tuple[str, ...] = ()
    code: str = ""
    #: samples in a row that it must hold
    patience: int = 1
    #: there is a clip already
    clipped: bool = False


def order(circumstances: Circumstances, scale: float) -> Iterator[Observation]:
    """Scaled gradients where true ones are meant."""
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


def broken(
    total: Total, sample: Sample | None, circumstances: Circumstances, before: Sequence[tuple[int, float]] = ()
) -> Observation | None:
    """NaN or Inf; `before` are the norms of the steps before it, if they show that training diverged."""
    layers = sample.layers if sample is not None else ()
    names = tuple(layer.name for layer in layers if not layer.finite) or (() if total.finite else total.layers)
    loss = "" if total.loss is None or math.isfinite(total.loss) else f"the loss is {total.loss:g}"
    if not total.finite:
        kind = "NaN" if math.isnan(total.norm or 0.0) else "Inf"
        share = f" ({len(names)} of {len(layers)} parameters)" if layers else ""
        what = f"{kind} in the gradient of {some(names)}{share}" if names else f"{kind} in the gradients"
        what += f"; {loss} already" if loss else ""
    elif loss:
        what = f"{loss} while the gradients are finite"
    else:
        return None
    spoilt = [layer.name for layer in layers if layer.weight is not None and not math.isfinite(layer.weight)]
    hint = "; diagnose_nan(loss, model) tells where it begins"
    if before:
        norms = ", ".join(f"{norm:.3g}" for _, norm in before)
        cause = f"; training diverged, the norms before it were {norms}: clip, or lower the learning rate"
    elif spoilt:
        cause = f"; the weights of {some(spoilt)} hold it already: an earlier step wrote it"
    elif circumstances.origin:
        cause, hint = f": {circumstances.origin}", ""
    elif loss:
        cause = ": look at the loss function first"
    elif circumstances.delicate:
        cause = f"; the loss was finite, near it are {', '.join(circumstances.delicate)}"
    else:
        cause = ""
    return Observation(Condition.NOT_FINITE, Severity.ERROR, f"{what}{cause}{hint}", names)


def too_high(total: Total, limits: Limits) -> Observation | None:
    if total.norm is None or not total.norm > limits.exploding:
        return None
    message = f"exploding: the total norm is {total.norm:.3g}{_after(total)} (rule of thumb: over {limits.exploding:g})"
    return Observation(Condition.EXPLODING, Severity.WARNING, message, total.layers, clipped=total.limit is not None)


def spike(total: Total, usual: float | None, limits: Limits) -> Observation | None:
    if usual is None or total.norm is None or not total.norm > limits.spike * usual:
        return None
    cut = total.limit is not None and total.limit < total.norm
    message = (
        f"spike: the total norm is {total.norm:.3g}{_after(total)}, {total.norm / usual:.3g} times the median of the "
        f"steps before it ({usual:.3g}; rule of thumb: over {limits.spike:g} times)"
    )
    # A clip that cuts it does what it is there for.
    severity = Severity.ADVICE if cut else Severity.WARNING
    return Observation(Condition.SPIKE, severity, message, total.layers, clipped=total.limit is not None)


def _after(total: Total) -> str:
    cut = total.limit is not None and total.norm is not None and total.limit < total.norm
    return f", {total.limit:.3g} after the clip" if cut else ""


def too_low(sample: Sample, loss: Trend, limits: Limits) -> Iterator[Observation]:
    """Exactly 0 is not small but dead, and told by itself."""
    falls = loss in (Trend.FALLING, Trend.EARLY)
    if 0 < sample.norm < limits.vanishing and not falls:
        message = f"vanishing: the total norm is {sample.norm:.3g} (rule of thumb: under {limits.vanishing:g})"
        yield Observation(Condition.VANISHING, _severity(loss), message + _told(loss), patience=PATIENCE)
    depth = late_over_early(sample.layers)
    if depth is None or not depth.ratio > limits.late_over_early:
        return
    # The late layers alone can make the loss fall; from here on the early ones take no part in it.
    if falls and not depth.ratio > limits.late_over_early**2:
        return
    why = ", though the loss falls: the late layers learn alone" if loss is Trend.FALLING else _told(loss)
    yield Observation(
        Condition.VANISHING_EARLY,
        Severity.WARNING if falls else _severity(loss),
        f"vanishing with depth: gradients of late layers ({depth.late}) are {depth.ratio:.3g} times those of early "
        f"ones ({depth.early}; rule of thumb: over {limits.late_over_early:g}){why}",
        (depth.early, depth.late),
        patience=PATIENCE,
    )


def beside_weights(sample: Sample, limits: Limits, why: str) -> Iterator[Observation]:
    """Weight matrices that one step moves too far; only where the gradient's size is the update's."""
    moved = {layer.name: move for layer in sample.layers if (move := _move(layer, sample)) > limits.update}
    if moved:
        names = tuple(sorted(moved, key=lambda name: -moved[name]))
        message = (
            f"large beside its weights: one step moves {some(names)} by {moved[names[0]]:.3g} of its norm "
            f"(learning rate × gradient / weight; rule of thumb: over {limits.update:g}){why}"
        )
        clipped = sample.clipped is not None
        yield Observation(Condition.LARGE_RATIO, Severity.WARNING, message, names, patience=PATIENCE, clipped=clipped)


def _move(layer: Layer, sample: Sample) -> float:
    """Of weight matrices only, biases begin at zero; and of what the step uses, after the clip."""
    if layer.axes < 2 or layer.ratio is None or layer.rate is None or not sample.norm:
        return 0.0
    return layer.ratio * layer.rate * sample.used / sample.norm


def _told(loss: Trend) -> str:
    if loss is Trend.UNTOLD:
        return "; that is fine while the loss falls, tell it by monitor.loss(loss)"
    if loss is Trend.ONCE:
        return "; that is fine while the loss falls"
    return "" if loss is Trend.EARLY else ", and the loss does not fall: converged, or stuck"


def _severity(loss: Trend) -> Severity:
    return Severity.ADVICE if loss in (Trend.UNTOLD, Trend.ONCE) else Severity.WARNING


def dead(names: Sequence[str], of: int) -> Observation:
    """Parameters whose gradient is exactly 0, while others have one."""
    which = f"{some(names)} ({len(names)} of {of} parameters)"
    message = f"dead: the gradient of {which} is exactly 0, sample after sample: nothing there learns"
    return Observation(Condition.DEAD_LAYERS, Severity.WARNING, message, tuple(names))


def untrained(names: Sequence[str], of: int) -> Observation:
    """Parameters that the optimizer holds and no backward reaches."""
    which = f"{some(names)} ({len(names)} of {of} parameters)"
    message = f"never trained: {which} never got a gradient, though the optimizer holds it and it wants one"
    return Observation(Condition.NEVER_TRAINED, Severity.WARNING, message, tuple(names))


def lifeless(missing: bool, steps: str) -> Observation:
    """Steps that change nothing: without a gradient, or with one of exactly 0 everywhere."""
    if missing:
        message = f"no parameter has a gradient at {steps}: they were cleared before it, or no backward reached them"
        return Observation(Condition.NO_GRADIENTS, Severity.WARNING, message, code="GL403")
    message = f"dead: every gradient is exactly 0 at {steps}: nothing is learned"
    return Observation(Condition.DEAD_STEPS, Severity.WARNING, message)


def setting(health: Health, limits: Limits) -> Iterator[Observation]:
    """What is wrong with the training around the gradients."""
    if health.foreign:
        yield Observation(
            Condition.FOREIGN_OPTIMIZER,
            Severity.ERROR,
            "the optimizer holds none of the model's parameters: it trains another model, or one from before it was "
            "copied, wrapped or moved",
            code="GL804",
        )
    if health.asleep:
        yield Observation(
            Condition.EVAL_MODE,
            Severity.WARNING,
            f"the model is in eval mode while it is trained: {some(health.asleep)} behaves as in evaluation; call "
            "model.train() behind each evaluation",
            patience=PATIENCE,
        )
    if health.kept >= KEPT:
        yield Observation(
            Condition.GRAPHS_KEPT,
            Severity.WARNING,
            f"graphs are kept: those of {health.kept} earlier losses are still alive, and memory grows with every "
            "step; keep loss.item(), or loss.detach()",
            code="GL809",
            patience=PATIENCE,
        )
    if dying := [(name, share) for name, share in health.units if share >= limits.dead_units]:
        name, share = max(dying, key=lambda unit: unit[1])
        yield Observation(
            Condition.DEAD_UNITS,
            Severity.ADVICE,
            f"dead units: {100 * share:.0f} % of the units of {name} had no gradient in the last samples "
            f"(rule of thumb: over {100 * limits.dead_units:g} %)",
            tuple(name for name, _ in sorted(dying, key=lambda unit: -unit[1])),
        )


def standstill(step: int, since: int) -> Observation | None:
    """A learning rate of 0 since that step; a warm-up may begin with it."""
    if step - since < KEPT:
        return None
    message = f"the learning rate is 0, since step {since}: no step changes anything"
    return Observation(Condition.RATE_ZERO, Severity.WARNING, message, patience=PATIENCE)


def left_out(names: Sequence[str]) -> Observation:
    """Parameters that nobody trains."""
    which = f"{some(names)} ({len(names)} parameters)"
    message = (
        f"in no optimizer: {which} get gradients, this optimizer does not hold them, and nobody changes them; if that "
        "is meant, requires_grad_(False) saves their backward"
    )
    return Observation(Condition.NO_OPTIMIZER, Severity.WARNING, message, tuple(names))


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
    typical = [layer.norm / math.sqrt(layer.elements) for layer in matrices]
    early, late = median(typical[:third]), median(typical[-third:])
    if not late or not early:  # exactly 0 is dead, which is told by itself
        return None
    return Depth(late / early, matrices[0].name, matrices[-1].name)


def largest(layers: Sequence[Layer]) -> tuple[str, ...]:
    return tuple(layer.name for layer in sorted(layers, key=lambda layer: -layer.norm)[:3])


def total_of(sample: Sample, limit: float | None = None) -> Total:
    """What a sample says of all gradients together."""
    norm = sample.norm if sample.layers else None
    names = largest(sample.layers) if sample.finite else tuple(x.name for x in sample.layers if not x.finite)
    return Total(sample.step, norm, sample.loss, names, limit if limit is not None else sample.limit)
