"""The total norm of every step: the last ones to judge the next by, all of them to be shown. Without torch."""

from __future__ import annotations

import math
from array import array
from collections import deque
from statistics import median

#: norms that a step is compared with, and how many there must be
RECENT = 100
ENOUGH = 20

#: points of the curve that is shown of a long run
SHOWN = 1000


class Totals:
    """Sixteen bytes for each step."""

    def __init__(self) -> None:
        self._steps = array("q")
        self._norms = array("d")
        self._recent: deque[float] = deque(maxlen=RECENT)
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
            if len(self._recent) >= ENOUGH and (self._usual is None or len(self._norms) % 10 == 0):
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
        full = len(self._recent) == RECENT and len(self._norms) >= 2 * RECENT
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
