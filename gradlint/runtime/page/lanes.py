"""The picture of one iteration: a lane for each kind of event, a column for each event, in the order they came.

A right update runs down the picture like a stair: zero, forward, backward, …, step. What is out of order breaks it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

from gradlint.runtime.page.render import Markup, tag
from gradlint.runtime.page.words import Optimizers, Places, Teller
from gradlint.runtime.recording import Happening, Raised, Recording, Stepped
from gradlint.runtime.verdicts import Cure, Judged, Verdict


class Tone(enum.Enum):
    """The value is the class in the page."""

    WRONG = "wrong"
    CURED = "cured"
    REFUTED = "refuted"


#: the sign beside the colour
SIGNS = {Tone.WRONG: "!", Tone.CURED: "✓", Tone.REFUTED: "○"}
WORDS = {Tone.WRONG: "wrong here", Tone.CURED: "cured", Tone.REFUTED: "not wrong here"}


@dataclass(frozen=True, slots=True)
class Flag:
    """One finding at one happening."""

    code: str
    name: str
    tone: Tone


#: calls within which something may be raised, by what they are a part of
_CALLS = {"scaler.step": "step", "closure": "step", "scale": "backward"}
Flags = dict[int, tuple[Flag, ...]]


def flags_before(judged: Iterable[Judged]) -> Flags:
    """By the index of the happening."""
    pointed = []
    for finding in judged:
        tone = Tone.WRONG if finding.verdict is Verdict.CONFIRMED else Tone.REFUTED
        pointed.append((Flag(finding.code, finding.name, tone), finding.marks))
    return _gathered(pointed)


def flags_after(judged: Iterable[Judged], before: Recording, after: Recording, places: tuple[Places, Places]) -> Flags:
    """What is still wrong; and of what is cured, the same statements, which are right now."""
    pointed = []
    for finding in judged:
        if finding.after_fix is Cure.CURED:
            marks = finding.marks_after or _same_statements(finding, before, after, places)
            pointed.append((Flag(finding.code, finding.name, Tone.CURED), marks))
        else:
            pointed.append((Flag(finding.code, finding.name, Tone.WRONG), finding.marks_after))
    return _gathered(pointed)


def kind_of(happening: Happening) -> str:
    """What a call raised is of the kind of the call."""
    if isinstance(happening, Raised) and happening.during:
        return _CALLS.get(happening.during, happening.during)
    return happening.KIND


def worst(at: Iterable[Flag]) -> Tone | None:
    tones = {flag.tone for flag in at}
    return next((tone for tone in Tone if tone in tones), None)


def _gathered(pointed: Iterable[tuple[Flag, Iterable[int]]]) -> Flags:
    found: Flags = {}
    for flag, marks in pointed:
        for index in marks:
            at = found.get(index, ())
            found[index] = at if flag in at else (*at, flag)
    return found


def _same_statements(finding: Judged, before: Recording, after: Recording, places: tuple[Places, Places]) -> list[int]:
    """The flagged statements in the fixed copy; one that the fix has rewritten is known if it is the only one left."""
    marks = frozenset(finding.marks)
    marked = {_statement(h, places[0]) for h in before.happenings if h.index in marks}
    found = [h.index for h in after.happenings if _statement(h, places[1]) in marked]
    return found or _only_ones(after, {kind for kind, _ in marked}, places[1])


def _only_ones(recording: Recording, kinds: set[str], places: Places) -> list[int]:
    alike = [h for h in recording.happenings if kind_of(h) in kinds]
    return [h.index for h in alike] if len({_statement(h, places) for h in alike}) == 1 else []


def _statement(happening: Happening, places: Places) -> tuple[str, str]:
    place = happening.place
    return kind_of(happening), places.source(place.file, place.line) if place is not None else ""


# -- what repeats is shown once ----------------------------------------------------------------------------------------


T = TypeVar("T")
#: a passage that comes twice is read faster than a bracket
_FEWEST = 3
#: one event that comes twice needs no bracket
_FEWEST_ALONE = 2
#: the longest passage whose repetition is looked for
_LONGEST = 24
#: micro-batches within critic steps within an iteration
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Cell(Generic[T]):
    """One thing to show, and all the things that it stands for."""

    items: tuple[T, ...]

    @property
    def first(self) -> T:
        return self.items[0]


@dataclass(frozen=True, slots=True)
class Fold(Generic[T]):
    """A passage that came `count` times in a row."""

    passage: tuple[Cell[T] | Fold[T], ...]
    count: int


def folded(items: Sequence[T], key: Callable[[T], Hashable]) -> list[Cell[T] | Fold[T]]:
    """The items, with passages that are the same by `key` folded; the shortest passages first."""
    current: list[Cell[T] | Fold[T]] = [Cell((item,)) for item in items]
    for _ in range(_ROUNDS):
        before = len(current)
        for length in range(1, min(_LONGEST, max(1, len(current) // _FEWEST)) + 1):
            current = _folded_by(current, length, key)
        if len(current) == before:
            break
    return current


def cells(parts: Sequence[Cell[T] | Fold[T]]) -> list[Cell[T]]:
    """From the left to the right, each once."""
    found: list[Cell[T]] = []
    for part in parts:
        found += cells(part.passage) if isinstance(part, Fold) else [part]
    return found


def _folded_by(parts: list[Cell[T] | Fold[T]], length: int, key: Callable[[T], Hashable]) -> list[Cell[T] | Fold[T]]:
    keys = [_key(part, key) for part in parts]
    found: list[Cell[T] | Fold[T]] = []
    at = 0
    while at < len(parts):
        count = 1
        while keys[at + count * length : at + (count + 1) * length] == keys[at : at + length]:
            count += 1
        if count < (_FEWEST_ALONE if length == 1 and isinstance(parts[at], Cell) else _FEWEST):
            found.append(parts[at])
            at += 1
        else:
            columns = zip(*(parts[at + n * length : at + (n + 1) * length] for n in range(count)), strict=True)
            found.append(Fold(tuple(_merged(column) for column in columns), count))
            at += count * length
    return found


def _merged(same: Sequence[Cell[T] | Fold[T]]) -> Cell[T] | Fold[T]:
    """One that stands for all of them; by their keys they are built alike."""
    first = same[0]
    if isinstance(first, Cell):
        return Cell(tuple(item for part in same if isinstance(part, Cell) for item in part.items))
    columns = zip(*(part.passage for part in same if isinstance(part, Fold)), strict=True)
    return Fold(tuple(_merged(column) for column in columns), first.count)


def _key(part: Cell[T] | Fold[T], key: Callable[[T], Hashable]) -> Hashable:
    if isinstance(part, Fold):
        return ("fold", part.count, tuple(_key(p, key) for p in part.passage))
    return key(part.first)


# -- the picture -------------------------------------------------------------------------------------------------------


#: from the top to the bottom: the order of the canonical update
ORDER = (
    "zero", "forward", "backward", "sync", "unscale", "read", "edit", "clip", "step", "update", "schedule",
    "loader", "warning", "error",
)  # fmt: skip
#: shown even where nothing happened in them: an empty lane tells something too
ALWAYS = ("zero", "forward", "backward", "step")
_NAMES = {"error": "raised"}
COLUMN = 32
LANE = 24
GUTTER = 74
#: how much larger than drawn a picture may be shown
_LARGEST = 1.3
_CODE = 12
_BRACKET = 17
_ROUND = 6.0
_LETTERED = 8.5
_FLAGGED = 9.5
Part = Cell[Happening] | Fold[Happening]


@dataclass(frozen=True, slots=True)
class Frame:
    """What pictures that stand beside each other have in common."""

    lanes: tuple[str, ...]
    columns: int
    #: lines of rule codes above the lanes
    codes: int = 1
    #: folds within folds
    depth: int = 0
    #: the lanes that have events in each of the pictures
    filled: tuple[frozenset[str], ...] = ()

    @property
    def top(self) -> float:
        return 6 + _CODE * self.codes

    @property
    def bottom(self) -> float:
        return self.top + LANE * len(self.lanes)

    @property
    def height(self) -> float:
        return self.bottom + 4 + _BRACKET * self.depth

    @property
    def width(self) -> float:
        return GUTTER + COLUMN * self.columns + 4

    def x(self, column: float) -> float:
        return GUTTER + COLUMN * (column + 0.5)

    def y(self, lane: str) -> float:
        return self.top + LANE * (self.lanes.index(lane) + 0.5)


def lane_of(happening: Happening) -> str:
    """What a call raised stands in the lane of the call."""
    kind = kind_of(happening)
    return kind if kind in ORDER else happening.KIND


def depth(parts: Sequence[Part]) -> int:
    """How many brackets stand below one another; a single event that repeats needs none."""
    return max((_levels(p) for p in parts if isinstance(p, Fold)), default=0)


def _levels(fold: Fold[Happening]) -> int:
    return depth(fold.passage) + (not _alone(fold))


def _alone(fold: Fold[Happening]) -> bool:
    return len(fold.passage) == 1 and isinstance(fold.passage[0], Cell)


class Painter:
    """Draws the iterations of one run."""

    def __init__(self, optimizers: Optimizers, teller: Teller, flags: Mapping[int, tuple[Flag, ...]]) -> None:
        self._optimizers = optimizers
        self._teller = teller
        self._flags = flags

    def flags(self, cell: Cell[Happening]) -> tuple[Flag, ...]:
        return tuple(dict.fromkeys(f for h in cell.items for f in self._flags.get(h.index, ())))

    def picture(self, parts: Sequence[Part], frame: Frame, label: str) -> Markup:
        row = cells(parts)
        spoken = f"{label}: {', '.join(self._spoken(cell) for cell in row)}"
        below = (*self._ground(frame), *self._bands(row, frame), *self._missing(row, frame))
        events = (self._event(cell, at, frame) for at, cell in enumerate(row))
        above = (self._thread(row, frame), *events, *self._counts(parts, frame))
        return tag(
            "svg", *below, *self._brackets(parts, frame), *above,
            class_="lanes", viewBox=f"0 0 {frame.width:g} {frame.height:g}", role="img", aria_label=spoken,
            style=f"min-width:{frame.width:g}px;max-width:{_LARGEST * frame.width:.0f}px",
        )  # fmt: skip

    def _spoken(self, cell: Cell[Happening]) -> str:
        codes = " ".join(flag.code for flag in self.flags(cell))
        times = f" × {len(cell.items)}" if len(cell.items) > 1 else ""
        return f"{_name(lane_of(cell.first))}{times}{f' ({codes})' if codes else ''}"

    def lines(self, row: Sequence[Cell[Happening]]) -> int:
        """How many lines of rule codes a picture needs."""
        return max((level + len(self.flags(row[at])) for at, level in self._levels(row).items()), default=0)

    def _levels(self, row: Sequence[Cell[Happening]]) -> dict[int, int]:
        """In which line each column's codes begin: neighbours have no room in one line."""
        found: dict[int, int] = {}
        for at, cell in enumerate(row):
            if not (count := len(self.flags(cell))):
                continue
            taken = found.get(at - 1)
            end = taken + len(self.flags(row[at - 1])) if taken is not None else 0
            found[at] = 0 if taken is None or count <= taken else end
        return found

    def _missing(self, row: Sequence[Cell[Happening]], frame: Frame) -> list[Markup]:
        """A lane that has events only in the other run is said to have none."""
        missing = frozenset[str]().union(*frame.filled) - {lane_of(cell.first) for cell in row}
        lanes = [lane for lane in frame.lanes if lane in missing]
        return [tag("text", "none", class_="none", x=GUTTER + 8, y=frame.y(lane) + 4) for lane in lanes]

    def _ground(self, frame: Frame) -> list[Markup]:
        parts = []
        for at, lane in enumerate(frame.lanes):
            top = frame.top + LANE * at
            if at % 2 == 0:
                width = frame.width - GUTTER
                parts.append(tag("rect", class_="stripe", x=GUTTER, y=top, width=width, height=LANE, rx=3))
            parts.append(tag("text", _name(lane), class_="lane", x=GUTTER - 10, y=top + LANE / 2 + 4))
        return parts

    def _bands(self, row: Sequence[Cell[Happening]], frame: Frame) -> list[Markup]:
        """Down from the codes of what is flagged."""
        bands, codes = [], []
        for at, level in self._levels(row).items():
            flags = self.flags(row[at])
            tone, left, top = worst(flags), frame.x(at) - COLUMN / 2 + 1, frame.top - _CODE * level
            look = f"band {tone.value if tone else ''}"
            bands.append(tag("rect", class_=look, x=left, y=top, width=COLUMN - 2, height=frame.bottom - top, rx=4))
            for line, flag in enumerate(flags):
                y = top - 5 - _CODE * line
                codes.append(tag("text", flag.code, class_=f"code {flag.tone.value}", x=frame.x(at), y=y))
        return bands + codes

    def _thread(self, row: Sequence[Cell[Happening]], frame: Frame) -> Markup:
        """The order of events, as a line."""
        points = [(frame.x(at), frame.y(lane_of(cell.first))) for at, cell in enumerate(row)]
        path = "".join(
            f"C{x1 + COLUMN / 2:g} {y1:g} {x2 - COLUMN / 2:g} {y2:g} {x2:g} {y2:g}"
            for (x1, y1), (x2, y2) in pairwise(points)
        )
        start = f"M{points[0][0]:g} {points[0][1]:g}" if points else ""
        return tag("path", class_="thread", d=f"{start}{path}" or None)

    def _event(self, cell: Cell[Happening], at: int, frame: Frame) -> Markup:
        flags = self.flags(cell)
        x, y = frame.x(at), frame.y(lane_of(cell.first))
        lines = [f"{flag.code} {flag.name}" for flag in flags] + self._teller.lines(cell.items)
        glyph = self._glyph(cell, worst(flags), x, y)
        if frame.filled and lane_of(cell.first) not in frame.filled[0]:
            lines.insert(0, "not in the run before the fix")
            glyph.append(tag("circle", class_="added", cx=x, cy=y, r=_FLAGGED + 2))
        return tag("g", tag("title", "\n".join(lines)), *glyph, class_="event")

    def _glyph(self, cell: Cell[Happening], tone: Tone | None, x: float, y: float) -> list[Markup]:
        first, whose = cell.first, self._optimizers.of(cell.first)
        letters = "".join(o.letter for o in whose) if self._optimizers.several else ""
        colour = f"p{whose[0].colour}" if len(whose) == 1 else "px" if self._optimizers.several else "p0"
        if len(letters) > 2:
            letters = "*"
        hit = tag("circle", class_="hit", cx=x, cy=y, r=COLUMN / 2 - 2)
        if isinstance(first, Raised):
            return [hit, _cross(x, y)]
        if tone is not None:
            sign = letters or SIGNS[tone]
            return [hit, _shape(tone, x, y), tag("text", sign, class_=f"sign {tone.value}", x=x, y=y + 4)]
        radius = _LETTERED if letters else _ROUND
        skipped = " skipped" if isinstance(first, Stepped) and first.skipped else ""
        circle = tag("circle", class_=f"dot {colour}{skipped}", cx=x, cy=y, r=radius)
        if not letters:
            return [hit, circle]
        look = f"sign{skipped}{' two' * (len(letters) > 1)}"
        return [hit, circle, tag("text", letters, class_=look, x=x, y=y + 3.5)]

    def _brackets(self, parts: Sequence[Part], frame: Frame) -> list[Markup]:
        """Round passages that repeat, the outer ones first."""
        found: list[Markup] = []
        for fold, start, width in _placed(parts, 0):
            if _alone(fold):
                continue
            level = _levels(fold)  # counted from the innermost
            left, top = frame.x(start) - COLUMN / 2 + 2, frame.top
            height = frame.bottom - top + _BRACKET * level - 2
            found.append(tag("rect", class_="fold", x=left, y=top, width=COLUMN * width - 4, height=height, rx=6))
            middle, below = frame.x(start + (width - 1) / 2), frame.bottom + _BRACKET * level - 5
            found.append(tag("text", f"× {fold.count}", class_="times", x=middle, y=below))
        return found

    def _counts(self, parts: Sequence[Part], frame: Frame) -> list[Markup]:
        """Beside single events that repeat."""
        found = []
        for fold, start, _ in _placed(parts, 0):
            if _alone(fold):
                cell = cells([fold])[0]
                x, y = frame.x(start) + 8, frame.y(lane_of(cell.first)) - 4
                found.append(tag("text", f"×{fold.count}", class_="beside", x=x, y=y))
        return found


def _placed(parts: Sequence[Part], start: int) -> list[tuple[Fold[Happening], int, int]]:
    """The folds, each with its first column, and how many columns it has."""
    found: list[tuple[Fold[Happening], int, int]] = []
    for part in parts:
        width = len(cells([part]))
        if isinstance(part, Fold):
            found += [(part, start, width), *_placed(part.passage, start)]
        start += width
    return found


def _shape(tone: Tone, x: float, y: float) -> Markup:
    """A diamond for what is wrong, a square for what is cured, a ring for what was not wrong."""
    r = _FLAGGED
    if tone is Tone.WRONG:
        far = r + 2
        points = f"{x:g},{y - far:g} {x + far:g},{y:g} {x:g},{y + far:g} {x - far:g},{y:g}"
        return tag("polygon", class_="shape wrong", points=points)
    if tone is Tone.CURED:
        return tag("rect", class_="shape cured", x=x - r, y=y - r, width=2 * r, height=2 * r, rx=4)
    return tag("circle", class_="shape refuted", cx=x, cy=y, r=r)


def _cross(x: float, y: float) -> Markup:
    r = 6
    path = f"M{x - r:g} {y - r:g}L{x + r:g} {y + r:g}M{x + r:g} {y - r:g}L{x - r:g} {y + r:g}"
    return tag("path", class_="raised", d=path)


def _name(lane: str) -> str:
    return _NAMES.get(lane, lane)
