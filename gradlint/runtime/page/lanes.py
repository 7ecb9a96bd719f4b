"""The picture of one iteration: a lane for each kind of event, a column for each event, in the order they came.

A right update runs down the picture like a stair: zero, forward, backward, …, step. What is out of order breaks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gradlint.runtime.page.cast import Cast
from gradlint.runtime.page.flags import SIGNS, Flag, Tone, kind_of, worst
from gradlint.runtime.page.folding import Cell, Fold, cells
from gradlint.runtime.page.svg import Markup, tag
from gradlint.runtime.page.telling import Teller
from gradlint.runtime.recording import Happening, Raised, Stepped

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

    def __init__(self, cast: Cast, teller: Teller, flags: Mapping[int, tuple[Flag, ...]]) -> None:
        self._cast = cast
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
        first, players = cell.first, self._cast.of(cell.first)
        letters = "".join(p.letter for p in players) if self._cast.several else ""
        colour = f"p{players[0].colour}" if len(players) == 1 else "px" if self._cast.several else "p0"
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
        return [
            hit,
            circle,
            *(
                [tag("text", letters, class_=f"sign{skipped}{' two' * (len(letters) > 1)}", x=x, y=y + 3.5)]
                if letters
                else []
            ),
        ]

    def _brackets(self, parts: Sequence[Part], frame: Frame) -> list[Markup]:
        """Round passages that repeat, the outer ones first."""
        found: list[Markup] = []
        for fold, start, width, level in _folds(parts):
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


def _folds(parts: Sequence[Part]) -> list[tuple[Fold[Happening], int, int, int]]:
    """Brackets: the fold, its first column, how many columns, and its level, counted from the innermost."""
    return [(f, start, width, _levels(f)) for f, start, width in _placed(parts, 0) if not _alone(f)]


def _placed(parts: Sequence[Part], start: int) -> list[tuple[Fold[Happening], int, int]]:
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
