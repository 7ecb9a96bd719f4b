"""What a mistake amounted to in a run, code by code, in numbers.

Where the mistake is an order of events, the machine has judged it (`Asked.wrong`), and the measure writes the sentence,
or says why this run could not show it. Where there is no order to judge, the numbers are the verdict (`judges`).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from gradlint.runtime.recording import H, Happening, Met, Raised
from gradlint.runtime.scene import Scene, Shown, Spot, Window, unreached


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a run is asked about."""

    scene: Scene
    spot: Spot
    #: what the machine objects to there, as it happened
    wrong: tuple[Happening, ...] = ()
    #: the rest of that story
    story: tuple[Happening, ...] = ()

    def here(self, kind: type[H]) -> list[H]:
        """What happened at the place."""
        return self.scene.at(self.spot, kind)

    def mistaken(self, kind: type[H]) -> list[H]:
        return [h for h in self.wrong if isinstance(h, kind)]

    def refused(self) -> list[Raised]:
        """The calls of the story that torch would not carry out."""
        return [h for h in (*self.wrong, *self.story) if isinstance(h, Raised)]

    def windows(self, happenings: Iterable[Happening]) -> list[Window]:
        """The full windows of the optimizers that these touched."""
        touched = sorted({o for h in happenings for o in h.optimizers})
        return [w for o in touched for w in self.scene.full_windows(o)]

    @property
    def after_fix(self) -> bool:
        """The whole function is asked about: a fix has moved things."""
        return self.spot.line is None

    def unreached(self) -> Shown:
        return unreached(self.spot, self.scene.recording.steps)

    def without_scaler(self) -> Shown | None:
        """No scaler does anything in this run: nothing can be shown of it."""
        scalers = [m for m in self.scene.recording.of(Met) if m.role == "scaler"]
        if any(m.enabled for m in scalers):
            return None
        if scalers:
            return Shown(None, "the scaler is disabled in this run: nothing was scaled")
        return None if self.after_fix else self.unreached()


Measure: TypeAlias = Callable[[Asked], Shown]
#: why nothing can be shown of windows
SINGLE = "no window of this run had more than one backward"

_FAMILIES = ("clipping", "scaling", "windows", "ranks")
_MEASURES: dict[str, Measure] = {}
_JUDGES: set[str] = set()


def measures(*codes: str, scaled: bool = False) -> Callable[[Measure], Measure]:
    """Registers the measure of a rule that the machine judges; `scaled`: it needs a scaler that does something."""

    def register(measure: Measure) -> Measure:
        for code in codes:
            if code in _MEASURES:
                raise ValueError(f"{code} has two measures")
            _MEASURES[code] = (lambda asked: asked.without_scaler() or measure(asked)) if scaled else measure
        return measure

    return register


def judges(*codes: str) -> Callable[[Measure], Measure]:
    """Registers a measure that is the verdict: its rule speaks of sizes, or of what the text says, not of an order."""
    _JUDGES.update(codes)
    return measures(*codes)


@functools.cache
def all_measures() -> dict[str, Measure]:
    """Of every rule that a run of the user's own can show."""
    for family in _FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
    return dict(sorted(_MEASURES.items()))


def by_numbers(code: str) -> bool:
    """The verdict on this code is its measure's."""
    return code in all_measures() and code in _JUDGES
