"""One run cut into iterations, folded, and ready to be drawn."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from gradlint.runtime.page.cast import Cast
from gradlint.runtime.page.flags import SIGNS, WORDS, Flag, Tone
from gradlint.runtime.page.folding import Cell, cells, folded
from gradlint.runtime.page.iterations import iterations
from gradlint.runtime.page.lanes import Frame, Painter, Part, lane_of
from gradlint.runtime.page.places import Places
from gradlint.runtime.page.svg import Markup
from gradlint.runtime.page.tallies import Tally, tallies
from gradlint.runtime.page.telling import Teller
from gradlint.runtime.recording import BackwardRan, Forwarded, Happening, Recording, Stepped

#: what is longer is folded without regard to flags
_LONG = 12


@dataclass(frozen=True, slots=True)
class Pointer:
    """A flagged event, in words below the picture."""

    codes: str
    tone: str
    sign: str
    meaning: str
    place: str
    source: str


@dataclass(frozen=True, slots=True)
class Picture:
    """One iteration of one run."""

    label: str
    svg: Markup
    tallies: list[Tally]
    pointers: list[Pointer]
    #: each event in words; only where the picture is open from the start
    words: list[list[str]]


class Run:
    """One side of the comparison."""

    def __init__(
        self, heading: str, recording: Recording, places: Places, flags: Mapping[int, tuple[Flag, ...]]
    ) -> None:
        self.heading = heading
        self.cast = Cast(recording, places)
        self._places = places
        self._flags = flags
        self._teller = Teller(places, self.cast)
        self._painter = Painter(self.cast, self._teller, flags)
        self.iterations = iterations(recording, places, flags)
        self._flags_tell = True
        self.parts = self._folded()
        if any(len(cells(parts)) > _LONG for parts in self.parts):
            # micro-batches of which some are flagged and some are not: better one picture than its parts
            self._flags_tell = False
            self.parts = self._folded()

    def __len__(self) -> int:
        return len(self.iterations)

    def row(self, at: int) -> list[Cell[Happening]]:
        """The marks of an iteration; none if the run ended earlier."""
        return cells(self.parts[at]) if at < len(self) else []

    def shape(self, at: int) -> Hashable:
        """The same for iterations that look alike."""
        return self._shape(self.parts[at]) if at < len(self) else None

    def steps(self, at: int) -> bool:
        return at < len(self) and bool(self.iterations[at].steps)

    def broken(self, at: int) -> set[str]:
        """The rules that are flagged in an iteration, but for the cured ones."""
        happenings = self.iterations[at].happenings if at < len(self) else []
        flags = [flag for h in happenings for flag in self._flags.get(h.index, ())]
        return {flag.code for flag in flags if flag.tone is not Tone.CURED}

    def lanes(self, at: int) -> frozenset[str]:
        return frozenset(lane_of(cell.first) for cell in self.row(at))

    def lines_of_codes(self, at: int) -> int:
        return self._painter.lines(self.row(at))

    def picture(self, at: int, frame: Frame, *, worded: bool) -> Picture | None:
        if at >= len(self):
            return None
        row = self.row(at)
        return Picture(
            self.heading,
            self._painter.picture(self.parts[at], frame, f"Iteration {at + 1}, {self.heading.lower()}"),
            tallies(self.iterations[at].happenings, self.cast),
            self._pointers(row),
            [self._teller.lines(cell.items) for cell in row] if worded else [],
        )

    def _folded(self) -> list[list[Part]]:
        return [folded(i.happenings, self._key) for i in self.iterations]

    def _key(self, happening: Happening) -> Hashable:
        """What makes two events look the same."""
        place = happening.place
        where = (place.file, place.line) if place is not None else None
        skipped = isinstance(happening, Stepped) and happening.skipped
        synced = happening.sync if isinstance(happening, Forwarded) else None
        if isinstance(happening, BackwardRan):
            synced = happening.syncs > 0
        flags = self._flags.get(happening.index, ()) if self._flags_tell else ()
        return (happening.KIND, where, happening.optimizers, skipped, synced, flags)

    def _shape(self, parts: Sequence[Part]) -> Hashable:
        return tuple(
            self._key(part.first) if isinstance(part, Cell) else (part.count, self._shape(part.passage))
            for part in parts
        )

    def _pointers(self, row: Sequence[Cell[Happening]]) -> list[Pointer]:
        found: dict[Pointer, None] = {}
        for cell in row:
            place = cell.first.place
            where = self._places.text(place) if place is not None else ""
            source = self._places.source(place.file, place.line) if place is not None else ""
            flags = self._painter.flags(cell)
            for tone in dict.fromkeys(flag.tone for flag in flags):
                codes = ", ".join(self._counted(flag, cell) for flag in flags if flag.tone is tone)
                found[Pointer(codes, tone.value, SIGNS[tone], WORDS[tone], where, source)] = None
        return list(found)

    def _counted(self, flag: Flag, cell: Cell[Happening]) -> str:
        """`GL103 (3 of 4)` if not all that the mark stands for are flagged."""
        times = sum(flag in self._flags.get(h.index, ()) for h in cell.items)
        return flag.code if times == len(cell.items) else f"{flag.code} ({times} of {len(cell.items)})"
