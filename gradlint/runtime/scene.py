"""What a measure looks at: the run as the machine cuts it into windows, with the numbers, and the place asked about."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gradlint.machine import trace
from gradlint.runtime.recording import BackwardRan, Gradient, H, Happening, Place, Raised, Recording, Stepped
from gradlint.runtime.replay import Replay, replay
from gradlint.runtime.turns import Files


@dataclass(frozen=True, slots=True)
class Spot:
    """Where to look: at a statement of a file, or (after a fix has moved things) in the whole function."""

    file: str
    line: int | None
    function: str = ""
    #: the lines of the finding's story
    related: tuple[int, ...] = ()
    #: the statement itself, as it was before the fix
    text: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """What was seen: it holds, it does not, or (None) the run had nothing to show it by."""

    holds: bool | None
    text: str
    marks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """One of the machine's windows, as it happened."""

    optimizer: str
    number: int
    happenings: tuple[Happening, ...]

    @property
    def step(self) -> Stepped | None:
        last = self.happenings[-1] if self.happenings else None
        return last if isinstance(last, Stepped) else None

    def of(self, kind: type[H]) -> list[H]:
        return [h for h in self.happenings if isinstance(h, kind)]

    def used(self) -> list[BackwardRan]:
        """The backwards that the step used: the last ones, as many as the recorder counted."""
        gradient = self.step.before_of(self.optimizer) if self.step is not None else None
        count = gradient.backwards if gradient is not None else 0
        return self.of(BackwardRan)[-count:] if count else []


class Scene:
    """One run: what happened, and how the machine reads it."""

    def __init__(self, recording: Recording, ranks: Iterable[Recording], files: Files) -> None:
        self.recording = recording
        #: all ranks, this one included
        self.ranks = [r for r in ranks if r.world == recording.world]
        self.files = files

    @functools.cached_property
    def played(self) -> Replay:
        return replay(self.recording, self.files)

    @functools.cached_property
    def _lives(self) -> dict[str, list[Window]]:
        """By optimizer."""
        happened = self.played.happenings
        return {
            key: [
                Window(key, window.number, tuple(happened[event.index] for event in window.events))
                for window in life.windows
            ]
            for key, life in trace.build(self.played.path).lives.items()
        }

    @functools.cached_property
    def _window_of(self) -> dict[tuple[str, int], Window]:
        return {(w.optimizer, h.index): w for windows in self._lives.values() for w in windows for h in w.happenings}

    def at(self, spot: Spot, kind: type[H]) -> list[H]:
        """What happened there: at the statement itself, else in a function that it calls."""
        found = list(self.recording.of(kind))
        if spot.line is None:
            return [h for h in found if h.place is not None and self._is_within(h.place, spot)] or found
        there = spot.file, self.files[spot.file].at(spot.line).start
        exact = [h for h in found if self.statement(h.place) == there]
        return exact or [h for h in found if any(self.statement(place) == there for place in h.places[1:])]

    def statement(self, place: Place | None) -> tuple[str, int] | None:
        """The file, and the first line of the statement."""
        return (place.file, self.files[place.file].at(place.line).start) if place is not None else None

    def ran(self, spot: Spot) -> bool:
        """Something was seen in the function of the spot (of the file, outside of any)."""
        return any(self._is_within(place, spot) for h in self.recording.happenings for place in h.places)

    def _is_within(self, place: Place, spot: Spot) -> bool:
        """In the spot's function."""
        return place.file == spot.file and self.files[place.file].at(place.line).function == spot.function

    def windows(self, optimizer: str) -> list[Window]:
        return self._lives.get(optimizer, [])

    def full_windows(self, optimizer: str) -> list[Window]:
        """Those that ended with a step."""
        return [w for w in self.windows(optimizer) if w.step is not None]

    def window_of(self, happening: Happening, optimizer: str) -> Window | None:
        return self._window_of.get((optimizer, happening.index))

    def step_before(self, happening: Happening) -> Stepped | None:
        """The last step of the optimizers that it touched."""
        steps = [s for s in self.recording.of(Stepped) if s.owner in happening.optimizers and s.index < happening.index]
        return steps[-1] if steps else None

    def optimizers(self) -> list[str]:
        """Those that stepped."""
        return list(dict.fromkeys(s.owner for s in self.recording.of(Stepped)))


def number(value: float | None) -> str:
    """Three digits are enough to see it; whole numbers such as a scale of 65536 are shown whole."""
    if value is None:
        return "unknown"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e6 else f"{value:.3g}"


def marks(happenings: Iterable[Happening]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(h.index for h in happenings))


def spread(weights: Sequence[tuple[float, float] | None]) -> float | None:
    """How far the ranks' weights (norm and sum of each) are apart, in lengths of them; None if not all are known."""
    known = [w for w in weights if w is not None]
    if len(known) < len(weights):
        return None
    norm = max(abs(w[0]) for w in known) or 1.0
    return max(max(w[i] for w in known) - min(w[i] for w in known) for i in (0, 1)) / norm


def true_norm(gradient: Gradient | None) -> float | None:
    return gradient.true if gradient is not None else None


def share(part: int, whole: int, what: str) -> str:
    """`all 8 steps`, `3 of 8 steps`."""
    if part == whole:
        return f"the only {what.removesuffix('s')}" if whole == 1 else f"all {whole} {what}"
    return f"{part} of {whole} {what}"


def exception(error: Raised) -> str:
    """Its type and the first sentence."""
    first = " ".join(error.message.partition(". ")[0].split())
    return f"{error.type}: {first[:120]}"


def unreached(spot: Spot, steps: int) -> Shown:
    line = "this line" if spot.line is not None else "it"
    return Shown(None, f"{line} did not run in these {steps} steps" if steps else f"{line} did not run")
