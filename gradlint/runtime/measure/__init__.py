"""What a mistake amounted to in a run, code by code, in numbers.

Where the mistake is an order of events, the machine has judged it (`Asked.wrong`), and the measure writes the sentence,
or says why this run could not show it. Where there is no order to judge, the numbers are the verdict (`decides`).
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gradlint.machine import trace
from gradlint.runtime.recording import BackwardRan, Gradient, H, Happening, Met, Place, Raised, Recording, Stepped
from gradlint.runtime.replay import Replay, replay
from gradlint.runtime.turns import Files
from gradlint.states import Life, Window


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


class Run:
    """One run: what happened, and the windows that the machine cuts it into."""

    def __init__(self, recording: Recording, ranks: Iterable[Recording], files: Files) -> None:
        self.recording = recording
        #: all ranks, this one included
        self.ranks = [r for r in ranks if r.world == recording.world]
        self.files = files

    @functools.cached_property
    def played(self) -> Replay:
        return replay(self.recording, self.files)

    @functools.cached_property
    def _lives(self) -> dict[str, Life]:
        """By optimizer."""
        return trace.build(self.played.path).lives

    @functools.cached_property
    def _events(self) -> dict[int, int]:
        """The index of the event that stands for a happening, by that of the happening."""
        return {happening.index: index for index, happening in enumerate(self.played.happenings)}

    def at(self, spot: Spot, kind: type[H]) -> list[H]:
        """What happened there: at the statement itself, else in a function that it calls."""
        found = list(self.recording.of(kind))
        if spot.line is None:
            return [h for h in found if h.place is not None and self._is_within(h.place, spot)] or found
        there = self.files.statement(spot.file, spot.line)
        exact = [h for h in found if self.statement(h.place) == there]
        return exact or [h for h in found if any(self.statement(place) == there for place in h.places[1:])]

    def statement(self, place: Place | None) -> tuple[str, int] | None:
        """The file, and the first line of the statement."""
        return self.files.statement(place.file, place.line) if place is not None else None

    def ran(self, spot: Spot) -> bool:
        """Something was seen in the function of the spot (of the file, outside of any)."""
        return any(self._is_within(place, spot) for h in self.recording.happenings for place in h.places)

    def _is_within(self, place: Place, spot: Spot) -> bool:
        """In the spot's function."""
        return place.file == spot.file and self.files[place.file].at(place.line).function == spot.function

    def windows(self, optimizer: str) -> list[Window]:
        life = self._lives.get(optimizer)
        return life.windows if life is not None else []

    def full_windows(self, optimizer: str) -> list[Window]:
        """Those that ended with a step."""
        return [w for w in self.windows(optimizer) if self.step(w) is not None]

    def steps(self, optimizer: str) -> list[Stepped]:
        """Those that the full windows ended with."""
        return [s for w in self.windows(optimizer) if (s := self.step(w)) is not None]

    def window_of(self, happening: Happening, optimizer: str) -> Window | None:
        life, event = self._lives.get(optimizer), self._events.get(happening.index)
        return life.of_event.get(event) if life is not None and event is not None else None

    def happened(self, window: Window, kind: type[H]) -> list[H]:
        """What happened in a window."""
        happenings = (self.played.happenings[event.index] for event in window.events)
        return [h for h in happenings if isinstance(h, kind)]

    def step(self, window: Window) -> Stepped | None:
        """The step that a window ended with; a call that torch would not carry out is none."""
        last = self.played.happenings[window.events[-1].index]
        return last if isinstance(last, Stepped) else None

    def used(self, window: Window) -> list[BackwardRan]:
        """The backwards that the step used: the last ones, as many as the recorder counted."""
        step = self.step(window)
        gradient = step.used if step is not None else None
        count = gradient.backwards if gradient is not None else 0
        return self.happened(window, BackwardRan)[-count:] if count else []

    def step_before(self, happening: Happening) -> Stepped | None:
        """The last step of the optimizers that it touched."""
        steps = [s for s in self.recording.of(Stepped) if s.owner in happening.optimizers and s.index < happening.index]
        return steps[-1] if steps else None

    def together(self, optimizer: str) -> list[list[Stepped]]:
        """The steps that all ranks have made, each as it was on every rank."""
        by_number = [{s.number: s for s in rank.steps_of(optimizer)} for rank in self.ranks]
        common = sorted(set(by_number[0]).intersection(*by_number[1:])) if by_number else []
        return [[steps[number] for steps in by_number] for number in common]

    def optimizers(self) -> list[str]:
        """Those that stepped."""
        return list(dict.fromkeys(s.owner for s in self.recording.of(Stepped)))


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a run is asked about."""

    run: Run
    spot: Spot
    #: what the machine objects to there, as it happened
    wrong: tuple[Happening, ...] = ()
    #: the rest of that story
    story: tuple[Happening, ...] = ()

    def here(self, kind: type[H]) -> list[H]:
        """What happened at the place."""
        return self.run.at(self.spot, kind)

    def mistaken(self, kind: type[H]) -> list[H]:
        return [h for h in self.wrong if isinstance(h, kind)]

    def refused(self) -> list[Raised]:
        """The calls of the story that torch would not carry out."""
        return [h for h in (*self.wrong, *self.story) if isinstance(h, Raised)]

    def windows(self, happenings: Iterable[Happening]) -> list[Window]:
        """The full windows of the optimizers that these touched."""
        touched = sorted({o for h in happenings for o in h.optimizers})
        return [w for o in touched for w in self.run.full_windows(o)]

    def most(self, happenings: Sequence[H]) -> int:
        """How many of these came in one window at the most."""
        mine = set(marks(happenings))
        windows = self.windows(happenings)
        return max((sum(h.index in mine for h in self.run.happened(w, Happening)) for w in windows), default=0)

    @property
    def after_fix(self) -> bool:
        """The whole function is asked about: a fix has moved things."""
        return self.spot.line is None

    def unreached(self) -> Shown:
        """The place did not run."""
        line = "this line" if self.spot.line is not None else "it"
        steps = self.run.recording.steps
        return Shown(None, f"{line} did not run in these {steps} steps" if steps else f"{line} did not run")

    def without_scaler(self) -> Shown | None:
        """No scaler does anything in this run: nothing can be shown of it."""
        scalers = [m for m in self.run.recording.of(Met) if m.role == "scaler"]
        if any(m.enabled for m in scalers):
            return None
        if scalers:
            return Shown(None, "the scaler is disabled in this run: nothing was scaled")
        return None if self.after_fix else self.unreached()


# -- the measures ------------------------------------------------------------------------------------------------------


#: why nothing can be shown of windows
SINGLE = "no window of this run had more than one backward"

_FAMILIES = ("clipping", "scaling", "windows", "ranks")
_MEASURES: dict[str, Measure] = {}


@dataclass(frozen=True, slots=True)
class Measure:
    """The measure of a rule: called with what is asked, and with what it is of, if that was told."""

    show: Callable[..., Shown]
    #: what it looks at: where there is nothing of the kind, the place did not run
    of: Callable[[Asked], Sequence[object]] | None
    #: it needs a scaler at work
    scaled: bool
    #: it is the verdict: its rule speaks of sizes, or of what the text says, not of an order
    decides: bool

    def __call__(self, asked: Asked) -> Shown:
        if self.scaled and (idle := asked.without_scaler()) is not None:
            return idle
        if self.of is None:
            return self.show(asked)
        found = self.of(asked)
        return self.show(asked, found) if found else asked.unreached()


def measures(
    *codes: str, of: Callable[[Asked], Sequence[object]] | None = None, scaled: bool = False, decides: bool = False
) -> Callable[[Callable[..., Shown]], Callable[..., Shown]]:
    """Registers a function as the measure of these rules."""

    def register(show: Callable[..., Shown]) -> Callable[..., Shown]:
        for code in codes:
            if code in _MEASURES:
                raise ValueError(f"{code} has two measures")
            _MEASURES[code] = Measure(show, of, scaled, decides)
        return show

    return register


def here(kind: type[H]) -> Callable[[Asked], list[H]]:
    """For measures of all that happened of a kind at the place."""
    return lambda asked: asked.here(kind)


@functools.cache
def all_measures() -> dict[str, Measure]:
    """Of every rule that a run of the user's own can show."""
    for family in _FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
    return dict(sorted(_MEASURES.items()))


# -- in words ----------------------------------------------------------------------------------------------------------


def number(value: float | None) -> str:
    """Three digits are enough to see it; whole numbers such as a scale of 65536 are shown whole."""
    if value is None:
        return "unknown"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e6 else f"{value:.3g}"


def marks(happenings: Iterable[Happening]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(h.index for h in happenings))


#: of weights, in lengths of them, that is no rounding
APART = 1e-6


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
