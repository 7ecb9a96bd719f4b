"""Where losses and total norms go, judged against their own spread: noise is neither a fall nor a rise. No torch."""

from __future__ import annotations

import enum
import math
from array import array
from collections import deque
from collections.abc import Sequence
from statistics import fmean, median

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
        if stretch <= 1:
            return list(zip(self._steps, self._norms, strict=True))
        return [max(self._points(at, stretch), key=_height) for at in range(0, len(self._norms), stretch)]

    def _points(self, at: int, stretch: int) -> list[tuple[int, float]]:
        return list(zip(self._steps[at : at + stretch], self._norms[at : at + stretch], strict=True))


def _height(point: tuple[int, float]) -> float:
    return math.inf if math.isnan(point[1]) else point[1]
