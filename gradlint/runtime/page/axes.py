"""Where a value stands in a plot, and which values are written beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median_low

#: beyond this ratio a plot is logarithmic
_DECADES = 100.0
#: decades below the median that a logarithmic plot shows at most
_BELOW = 6


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values; `log` if it spans decades."""

    low: float
    high: float
    log: bool = False

    def share(self, value: float) -> float:
        """0 at the low end, 1 at the high one; what lies outside stands at the edge."""
        if self.log:
            if value <= 0:
                return 0.0
            part = (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        else:
            part = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, part))

    def ticks(self, most: int = 5) -> list[float]:
        return _decades(self.low, self.high, most) if self.log else _even(self.low, self.high, most)


def value_axis(values: Iterable[float], *, from_zero: bool = True, may_log: bool = True) -> Axis:
    """Round the finite values, with a little room."""
    finite = [v for v in values if math.isfinite(v)]
    positive = [v for v in finite if v > 0]
    if may_log and positive and max(positive) / min(positive) > _DECADES and min(finite) >= 0:
        first, last = math.floor(math.log10(min(positive)) - 0.1), math.ceil(math.log10(max(positive)) + 0.1)
        # One that is all but 0 stands at the lower edge: it must not squeeze the others together.
        first = max(first, min(math.floor(math.log10(median_low(positive))), 300) - _BELOW)
        return Axis(10.0 ** max(first, -300), 10.0 ** min(last, 300), log=True)
    if not finite:
        return Axis(0.0, 1.0)
    low, high = min(finite), max(finite)
    if from_zero and low >= 0:
        return Axis(0.0, high * 1.12 or 1.0)
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    return Axis(low - room, high + room)


def step_axis(steps: Iterable[int]) -> Axis:
    seen = list(steps)
    low, high = min(seen, default=1), max(seen, default=1)
    return Axis(low - 0.5, high + 0.5) if low == high else Axis(low, high)


def whole_ticks(axis: Axis, most: int = 8) -> list[float]:
    """Ticks for things that are counted."""
    low, high = math.ceil(axis.low), math.floor(axis.high)
    width = max(1, round(_nice((high - low) / most)))
    start = -(-low // width) * width
    ticks = list(range(start, high + 1, width))
    if ticks[:1] != [low] and (not ticks or ticks[0] - low >= width * 0.6):
        ticks.insert(0, low)
    return [float(t) for t in ticks]


def _even(low: float, high: float, most: int) -> list[float]:
    width = _nice((high - low) / most)
    first = math.ceil(low / width - 1e-9)
    return [n * width for n in range(first, math.floor(high / width + 1e-9) + 1)]


def _decades(low: float, high: float, most: int) -> list[float]:
    first, last = round(math.log10(low)), round(math.log10(high))
    width = max(1, -(-(last - first) // most))
    return [10.0**n for n in range(first, last + 1, width)]


def _nice(width: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    if width <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(width))
    return next(nice * power for nice in (1, 2, 5, 10) if nice * power >= width * 0.999)
