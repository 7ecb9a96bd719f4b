"""What looks wrong as the steps go by: one finding when a condition begins, none while it lasts. Without torch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gradlint.model import Severity
from gradlint.runtime.monitor import observations
from gradlint.runtime.monitor.data import Condition, Finding, Limits, Sample, Total
from gradlint.runtime.monitor.observations import Circumstances, Observation, Trend

_CLIP = "clip_grad_norm_(model.parameters(), max_norm=1.0) before the step"
_EXPLODING = (
    _CLIP,
    "a lower learning rate, with warm-up",
    "initialisation and normalisation of the layers with the largest gradients",
    "the loss's numerics: unbounded logarithms, divisions, exponentials (GL601–GL604); a mean in place of a sum",
)
_VANISHING = (
    "ReLU or GELU in place of sigmoid and tanh (GL701)",
    "initialisation that fits the activation (kaiming, xavier)",
    "normalisation between the layers",
    "shortcuts round them (x + f(x))",
)
REMEDIES: dict[Condition, tuple[str, ...]] = {
    Condition.EXPLODING: _EXPLODING,
    Condition.GROWING: _EXPLODING,
    Condition.SPIKE: (
        _CLIP,
        "the batch of that step: outliers, empty targets, wrong labels",
        "a lower learning rate, or a smaller beta2 of Adam",
        "the loss's numerics (GL601–GL604)",
    ),
    Condition.VANISHING: (
        "whether the loss still reaches the model: no detach(), no softmax before cross_entropy (GL606)",
        *_VANISHING,
    ),
    Condition.VANISHING_EARLY: _VANISHING,
    Condition.LARGE_RATIO: (
        "a lower learning rate, with warm-up",
        _CLIP,
        "initialisation: weights that are too small for their gradients",
    ),
    Condition.DEAD_LAYERS: (
        "a lower learning rate: one large step can push every unit of a ReLU layer below 0",
        "LeakyReLU or GELU in place of ReLU",
        "initialisation, biases first",
        "whether the layer's output is multiplied by 0, masked or saturated on its way to the loss",
    ),
    Condition.DEAD_UNITS: (
        "a lower learning rate, with warm-up",
        "LeakyReLU or GELU in place of ReLU",
        "initialisation, biases first",
    ),
    Condition.NO_OPTIMIZER: (
        "build the optimizer behind the last change of the model (GL804)",
        "optimizer.add_param_group({'params': …}) for layers that come later",
    ),
    Condition.FOREIGN_OPTIMIZER: (
        "build the optimizer from model.parameters(), behind all copies, moves and wrappers",
    ),
    Condition.RATE_ZERO: (
        "the schedule: warm-up that is stepped once an epoch stays at 0 for the first one (GL406)",
        "whether the schedule is longer than the training, in the units in which it is stepped",
    ),
    Condition.NEVER_TRAINED: (
        "whether the forward uses them at all, and the loss uses what they make",
        "detach(), .data, .item(), numpy() or no_grad() between them and the loss (GL801)",
        "a layer that was replaced behind the optimizer (GL804)",
        "if they are meant to stay as they are: requires_grad_(False), and leave them out of the optimizer",
    ),
    Condition.DEAD_STEPS: (
        "whether the loss depends on the model: no detach(), no constant, no mask that is all 0",
        "dead units: a lower learning rate, LeakyReLU or GELU",
        "float16 without a GradScaler: small gradients become 0 (GL212)",
    ),
    Condition.NO_GRADIENTS: (
        "the order: zero_grad(), backward(), step(); no zero_grad() between the last two (GL403)",
        "whether the optimizer holds the parameters that the loss depends on",
    ),
}


def finding_of(o: Observation, step: int, line: str = "") -> Finding:
    """With its remedies, in order; a clip is none where there is one."""
    remedies = tuple(each for each in REMEDIES.get(o.condition, ()) if not (o.clipped and each == _CLIP))
    return Finding(o.condition, step, o.severity, o.message, o.layers, o.code, remedies=remedies, line=line)


# -- the judge ---------------------------------------------------------------------------------------------------------


#: steps in a row that must be well before what was told of single steps counts anew
PEACE = 20
#: steps in a row without any gradient, or with one of exactly 0, that are told
LIFELESS = 10
#: samples in a row without a gradient before a parameter counts as never trained: some are used now and then
UNUSED = 5
#: skipped steps in a row that a scaler needs to find its scale, at most: 65536 is 2 to the 16
SKIPS = 20
#: tells the line that steps the optimizer, where that is running
Line = Callable[[], str] | None
#: judged at every step; what else there is, at samples
_AT_STEPS = (Condition.NOT_FINITE, Condition.EXPLODING, Condition.SPIKE, Condition.GROWING)
_AT_SAMPLES = (
    Condition.CLIP_SCALED, Condition.STEP_SCALED, Condition.VANISHING, Condition.VANISHING_EARLY, Condition.LARGE_RATIO,
    Condition.FOREIGN_OPTIMIZER, Condition.EVAL_MODE, Condition.GRAPHS_KEPT, Condition.RATE_ZERO,
)  # fmt: skip


@dataclass(slots=True)
class _Episode:
    held: int = 0
    clear: int = 0
    #: index of its finding, once it was told
    told: int | None = None


@dataclass(slots=True)
class _Named:
    """A condition of single parameters: each has its own time."""

    patience: int
    held: dict[str, int] = field(default_factory=dict)
    #: index of the finding that told it
    told: dict[str, int] = field(default_factory=dict)

    def follow(self, names: Iterable[str]) -> tuple[list[str], set[int]]:
        """Those that are told now, and the findings that are over."""
        self.held = {name: self.held.get(name, 0) + 1 for name in names}
        over = {index for name, index in self.told.items() if name not in self.held}
        self.told = {name: index for name, index in self.told.items() if name in self.held}
        new = [name for name, count in self.held.items() if count >= self.patience and name not in self.told]
        return new, over - set(self.told.values())


class Judge:
    """Follows conditions from step to step."""

    def __init__(self, limits: Limits | None = None, shard: bool = False) -> None:
        self.limits = limits or Limits()
        self.findings: list[Finding] = []
        self.totals = observations.Totals()
        self.losses = observations.Losses()
        self._shard = shard
        self._episodes: dict[Condition, _Episode] = {}
        self._dead = _Named(observations.PATIENCE)
        self._unused = _Named(UNUSED)
        self._left_out = _Named(observations.PATIENCE - 1)
        self._used: set[str] = set()
        self._still_since: int | None = None
        self._steps = 0
        self._lifeless = 0
        self._held_back: tuple[Observation, int] | None = None

    def startling(self, norm: float) -> bool:
        """Whether the gradients of a step with this norm are worth a look that was not due."""
        if not math.isfinite(norm):
            return not self._open(Condition.NOT_FINITE)
        if self.totals.usual is not None and norm > self.limits.spike * self.totals.usual:
            return not self._open(Condition.SPIKE)
        return norm > self.limits.exploding and not self._open(Condition.EXPLODING) and not self.losses.trains

    def step(
        self,
        total: Total,
        sample: Sample | None = None,
        circumstances: Circumstances | None = None,
        line: Line = None,
    ) -> list[Finding]:
        """The findings that begin with this step; `sample` if it was sampled."""
        circumstances = circumstances or Circumstances()
        began = len(self.findings)
        self._steps += 1
        if total.loss is not None:
            self.losses.tell(total.loss)
        self._follow(self._of_total(total, sample, circumstances), _AT_STEPS, total.step, PEACE, line)
        self.totals.add(total.step, total.norm)
        self._alive(total, line)
        if sample is not None:
            self._follow(self._of_sample(sample, circumstances), _AT_SAMPLES, sample.step, observations.PATIENCE, line)
            self._parameters(sample, circumstances, line)
        return self.findings[began:]

    def end(self) -> list[Finding]:
        """What only the end of the training shows: that all of its few steps were of one kind."""
        began = len(self.findings)
        if 0 < self._steps == self._lifeless < LIFELESS and not self._shard:
            missing = self.totals.count == 0
            steps = "the only step" if self._steps == 1 else f"each of the {self._steps} steps"
            self._hold(observations.lifeless(missing, steps), self._steps)
        if self._held_back is not None and self.losses.trend is Trend.EARLY:
            self._hold(*self._held_back)
        return self.findings[began:]

    def hold(self, observation: Observation, step: int) -> list[Finding]:
        """A condition that somebody else has seen."""
        began = len(self.findings)
        self._hold(observation, step)
        return self.findings[began:]

    def _of_total(self, total: Total, sample: Sample | None, circumstances: Circumstances) -> Iterable[Observation]:
        bad = observations.broken(total, sample, circumstances, self._diverged())
        if bad is not None:
            self._held_back = None
            yield bad
            return
        peak = observations.spike(total, self.totals.usual, self.limits)
        if peak is not None:
            yield peak
        if (high := observations.too_high(total, self.limits)) is not None:
            # Too early to say whether the loss falls: until it can be said, it waits.
            self._held_back = (high, total.step) if self.losses.trend is Trend.EARLY else None
            if self._held_back is None and not self.losses.trains:
                # One step alone is a spike, and told as such.
                yield dataclasses.replace(high, patience=observations.PATIENCE) if peak is not None else high
        if self._open(Condition.GROWING) or self.totals.count % 10 == 0:
            growth = self.totals.growth
            if growth > self.limits.growth and not self.losses.trains:
                message = (
                    f"growing: the total norm is {growth:.3g} times that of the first steps "
                    f"(rule of thumb: over {self.limits.growth:g} times)"
                )
                clipped = total.limit is not None
                yield Observation(Condition.GROWING, Severity.WARNING, message, total.layers, clipped=clipped)

    def _diverged(self) -> Sequence[tuple[int, float]]:
        last = self.totals.last
        grew = last and all(math.isfinite(norm) for _, norm in last) and last[-1][1] > 10 * last[0][1]
        recent = [f for f in self.findings if f.condition is Condition.EXPLODING and f.until is None]
        return last if last and (recent or (grew and last[-1][1] > self.limits.exploding)) else ()

    def _of_sample(self, sample: Sample, circumstances: Circumstances) -> Iterable[Observation]:
        yield from observations.order(circumstances, sample.scale)
        yield from observations.setting(circumstances.health, self.limits)
        if (still := self._standstill(sample)) is not None:
            yield still
        if not sample.layers or not sample.finite:
            return
        loss = self.losses.trend
        yield from observations.too_low(sample, loss, self.limits)
        if loss is Trend.RISING:
            yield from observations.beside_weights(sample, self.limits, ", and the loss rises")

    def _standstill(self, sample: Sample) -> Observation | None:
        if not sample.rates or any(sample.rates):  # a NaN, of an optimizer without a rate, is none of 0
            self._still_since = None
            return None
        self._still_since = sample.step if self._still_since is None else self._still_since
        return observations.standstill(sample.step, self._still_since)

    def _alive(self, total: Total, line: Line) -> None:
        if total.norm or total.loss == 0:  # a loss of exactly 0 has nothing left to teach
            for condition in (Condition.NO_GRADIENTS, Condition.DEAD_STEPS):
                if condition in self._episodes:
                    self._clear(self._episodes[condition], total.step, peace=1)
            self._lifeless = 0
            return
        self._lifeless += 1
        # A rank may hold no part of a small model.
        if self._lifeless >= LIFELESS and not self._shard:
            self._hold(observations.lifeless(total.norm is None, f"{self._lifeless} steps in a row"), total.step, line)

    def _parameters(self, sample: Sample, circumstances: Circumstances, line: Line) -> None:
        if not circumstances.health.foreign:
            self._name(self._left_out, circumstances.health.left_out, observations.left_out, sample.step, line)
        if self._shard or not sample.norm:
            return
        count = len(sample.layers) + len(circumstances.missing)
        still = [layer.name for layer in sample.layers if layer.norm == 0]
        self._name(self._dead, still, lambda names: observations.dead(names, count), sample.step, line)
        self._used |= {layer.name for layer in sample.layers}
        never = [name for name in circumstances.missing if name not in self._used]
        self._name(self._unused, never, lambda names: observations.untrained(names, count), sample.step, line)

    def _name(
        self,
        named: _Named,
        names: Sequence[str],
        observation: Callable[[Sequence[str]], Observation],
        step: int,
        line: Line,
    ) -> None:
        new, over = named.follow(names)
        for index in over:
            self.findings[index] = dataclasses.replace(self.findings[index], until=step)
        if new:
            named.told |= dict.fromkeys(new, len(self.findings))
            self._tell(observation(new), step, line)

    def _follow(
        self,
        observations: Iterable[Observation],
        judged: Sequence[Condition],
        step: int,
        peace: int,
        line: Line,
    ) -> None:
        held = set()
        for observation in observations:
            held.add(observation.condition)
            self._hold(observation, step, line)
        for condition in judged:
            if condition not in held and condition in self._episodes:
                self._clear(self._episodes[condition], step, peace)

    def _hold(self, observation: Observation, step: int, line: Line = None) -> None:
        episode = self._episodes.setdefault(observation.condition, _Episode())
        episode.held += 1
        episode.clear = 0
        if episode.told is None and episode.held >= observation.patience:
            episode.told = len(self.findings)
            self._tell(observation, step, line)

    def _tell(self, observation: Observation, step: int, line: Line) -> None:
        self.findings.append(finding_of(observation, step, line() if line is not None else ""))

    def _clear(self, episode: _Episode, step: int, peace: int) -> None:
        episode.held = 0
        episode.clear += 1
        if episode.told is not None and episode.clear >= peace:
            over = step - peace + 1 if peace == PEACE else step
            self.findings[episode.told] = dataclasses.replace(self.findings[episode.told], until=over)
            episode.told = None

    def _open(self, condition: Condition) -> bool:
        return condition in self._episodes and self._episodes[condition].told is not None
