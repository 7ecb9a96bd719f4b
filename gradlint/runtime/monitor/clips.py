"""How often a clip acts, and what that says of its threshold. Plain numbers, without torch."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from gradlint.runtime.monitor.data import Clip, ClipVerdict

#: rules of thumb: a clip that acts on at most this share of the steps is a safety net, from the other on it rules them
RARE = 0.1
CONSTANT = 0.9

#: what a clip of everything clips
ALL = "all parameters"

#: calls before anything is said
ENOUGH = 5


@dataclass(slots=True)
class Tally:
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
