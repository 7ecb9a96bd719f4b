"""What a check looks at: the run, cut into each optimizer's windows, and the place that a finding speaks of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gradlint.runtime.closures import superseded
from gradlint.runtime.lines import Files
from gradlint.runtime.recording import (
    BackwardRan,
    Gradient,
    H,
    Happening,
    Met,
    Raised,
    Recording,
    Stepped,
    Updated,
    Zeroed,
)


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
    """What a check saw: it holds, it does not, or (None) the run had nothing to show it by."""

    holds: bool | None
    text: str
    marks: tuple[int, ...] = ()


@dataclass(slots=True)
class Window:
    """What happened to one optimizer's gradients between two of its steps, the second one included."""

    optimizer: str
    number: int
    happenings: list[Happening] = field(default_factory=list)
    step: Stepped | None = None

    def of(self, kind: type[H]) -> list[H]:
        return [h for h in self.happenings if isinstance(h, kind)]

    def before(self, event: Happening, kind: type[H]) -> list[H]:
        return [h for h in self.of(kind) if h.index < event.index]

    def after(self, event: Happening, kind: type[H]) -> list[H]:
        return [h for h in self.of(kind) if h.index > event.index]

    def clearings(self) -> list[Zeroed]:
        """Those that left nothing of these gradients, before the step."""
        end = self.step.index if self.step is not None else 1 << 60
        return [z for z in self.of(Zeroed) if z.index < end and _clears(z, self.optimizer)]

    def used(self) -> list[BackwardRan]:
        """The backwards that the step used. What was cleared before it is not: another loss may pass through here."""
        cleared = max((z.index for z in self.clearings()), default=-1)
        return [b for b in self.of(BackwardRan) if b.index > cleared]


class Scene:
    """One run, with what the machine says of it."""

    def __init__(self, recording: Recording, ranks: Iterable[Recording], files: Files) -> None:
        self.recording = recording
        #: all ranks, this one included
        self.ranks = [r for r in ranks if r.world == recording.world]
        self.files = files
        self._lives: dict[str, list[Window]] = {}
        #: by optimizer and the index of the happening
        self._windows: dict[str, dict[int, Window]] = {}

    def at(self, spot: Spot, kind: type[H]) -> list[H]:
        """What happened there: at the statement itself, else in a function that it calls."""
        found = list(self.recording.of(kind))
        if spot.line is None:
            own = [h for h in found if self._in_function(h, spot, 0)]
            return own or found
        start = self.files[spot.file].at(spot.line).start
        exact = [h for h in found if h.place is not None and self._is_at(h, 0, spot.file, start)]
        if exact:
            return exact
        return [h for h in found if any(self._is_at(h, i, spot.file, start) for i in range(1, len(h.places)))]

    def statement(self, happening: Happening) -> tuple[str, int] | None:
        """Where it happened: the file, and the first line of the statement."""
        place = happening.place
        return (place.file, self.files[place.file].at(place.line).start) if place is not None else None

    def ran(self, spot: Spot) -> bool:
        """Something was seen in the function of the spot (of the file, outside of any)."""
        return any(self._in_function(h, spot, i) for h in self.recording.happenings for i in range(len(h.places)))

    def _is_at(self, happening: Happening, depth: int, file: str, start: int) -> bool:
        place = happening.places[depth]
        return place.file == file and self.files[file].at(place.line).start == start

    def _in_function(self, happening: Happening, spot: Spot, depth: int) -> bool:
        if depth >= len(happening.places):
            return False
        place = happening.places[depth]
        return place.file == spot.file and self.files[place.file].at(place.line).function == spot.function

    def windows(self, optimizer: str) -> list[Window]:
        if optimizer not in self._lives:
            self._lives[optimizer] = list(_windows(self.recording, optimizer))
        return self._lives[optimizer]

    def full_windows(self, optimizer: str) -> list[Window]:
        """Those that ended with a step."""
        return [w for w in self.windows(optimizer) if w.step is not None]

    def window_of(self, happening: Happening, optimizer: str) -> Window | None:
        if optimizer not in self._windows:
            self._windows[optimizer] = {h.index: w for w in self.windows(optimizer) for h in w.happenings}
        return self._windows[optimizer].get(happening.index)

    def optimizers(self) -> list[str]:
        """Those that stepped."""
        return list(dict.fromkeys(s.owner for s in self.recording.of(Stepped)))

    def scaler_works(self) -> bool:
        """Some scaler is there and does something."""
        return any(m.role == "scaler" and m.enabled for m in self.recording.of(Met))


def _windows(recording: Recording, optimizer: str) -> Iterator[Window]:
    window = Window(optimizer, 0)
    tries = superseded(recording)
    for happening in recording.happenings:
        if happening.index in tries or not _touches(happening, optimizer):
            continue
        window.happenings.append(happening)
        if isinstance(happening, Stepped):
            window.step = happening
            yield window
            window = Window(optimizer, window.number + 1)
    if window.happenings:
        yield window


def _clears(zeroed: Zeroed, optimizer: str) -> bool:
    left = zeroed.gradient_of(optimizer)
    return left is None or left.norm == 0


def _touches(happening: Happening, optimizer: str) -> bool:
    if isinstance(happening, Stepped):
        return happening.owner == optimizer
    if isinstance(happening, Updated):
        return True
    return optimizer in happening.optimizers or getattr(happening, "owner", "") == optimizer


def number(value: float | None) -> str:
    """Three digits are enough to see it; whole numbers such as a scale of 65536 are shown whole."""
    if value is None:
        return "unknown"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e6 else f"{value:.3g}"


def marks(happenings: Iterable[Happening]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(h.index for h in happenings))


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
    line = f"line {spot.line}" if spot.line is not None else "it"
    return Shown(None, f"{line} did not run in these {steps} steps" if steps else f"{line} did not run")
