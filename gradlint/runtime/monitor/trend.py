"""Where the loss goes: judged against its own spread, so that noise is neither a fall nor a rise. Without torch."""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Sequence
from statistics import fmean

#: losses before one can say that they fall or rise, and before one can say that they do neither
ENOUGH = 8
PLENTY = 30
#: how many of the last ones are looked at
RECENT = 100

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

    def __init__(self, recent: int = RECENT) -> None:
        self._first: list[float] = []
        self._recent: deque[float] = deque(maxlen=recent)

    def tell(self, loss: float) -> None:
        if math.isfinite(loss):  # one that is not finite is told of by itself
            if len(self._first) < ENOUGH:
                self._first.append(loss)
            self._recent.append(loss)

    @property
    def trend(self) -> Trend:
        """The newer half of the last ones against the older one."""
        if not self._recent:
            return Trend.UNTOLD
        if len(self._recent) < ENOUGH:
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
        return trend is Trend.FALLING or change(self._first, list(self._recent)[-ENOUGH:]) is Trend.FALLING
