"""The iterations of both runs, folded and side by side: which are drawn, and which are folded away."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from gradlint.model import counted
from gradlint.runtime.page.iterations import iterations
from gradlint.runtime.page.lanes import (
    ALWAYS,
    ORDER,
    SIGNS,
    WORDS,
    Cell,
    Flag,
    Frame,
    Painter,
    Part,
    Tone,
    cells,
    depth,
    folded,
    lane_of,
)
from gradlint.runtime.page.render import Markup, span
from gradlint.runtime.page.words import Optimizers, Places, Tally, Teller, compared, tallies
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
        self.optimizers = Optimizers(recording, places)
        self._places = places
        self._flags = flags
        self._teller = Teller(places, self.optimizers)
        self._painter = Painter(self.optimizers, self._teller, flags)
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
            tallies(self.iterations[at].happenings, self.optimizers),
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
            where = self._places.at(place.file, place.line) if place is not None else ""
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


# -- both runs side by side --------------------------------------------------------------------------------------------


#: iterations that are drawn at all, and those that are open from the start
_DRAWN = 40
_OPEN = 3
#: pictures are at least this wide, so that they stand in line, and share their width up to the second
_NARROWEST = 8
_WIDEST = 14


@dataclass(frozen=True, slots=True)
class Row:
    """One iteration of both runs."""

    number: int
    title: str
    pictures: tuple[Picture | None, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Iterations that are open, or folded away under a title."""

    title: str
    rows: list[Row]
    opened: bool


@dataclass(slots=True)
class Story:
    """All that the page shows of the order of events."""

    headings: tuple[str, ...] = ()
    blocks: list[Block] = field(default_factory=list)
    #: letter, colour and name of the optimizers, where there are several
    optimizers: list[tuple[str, int, str]] = field(default_factory=list)
    note: str = ""
    #: rule code -> the first iteration in which it is flagged
    first: dict[str, int] = field(default_factory=dict)


def story(runs: Sequence[Run]) -> Story:
    """`runs`: the one before the fix, and the one after it if there is one."""
    count = max((len(run) for run in runs), default=0)
    if not count:
        return Story(note="No event was recorded: nothing trained before the script ended.")
    told = Story(headings=tuple(run.heading for run in runs), optimizers=_optimizers(runs))
    for at in range(count):
        for code in sorted(set[str]().union(*(run.broken(at) for run in runs))):
            told.first.setdefault(code, at + 1)
    opened = _opened(runs, count, set(told.first.values()))
    chosen = [at for at in range(count) if at < _DRAWN or at in opened]
    columns = max(len(run.row(at)) for run in runs for at in chosen)
    lanes, shared = _lanes(runs, chosen), max(_NARROWEST, min(columns, _WIDEST))
    rows = {at: _row(runs, at, lanes, shared, opened=at in opened) for at in chosen}
    told.blocks = _blocks(rows, opened, runs)
    if len(chosen) < count:
        told.note = f"{counted(count - len(chosen), 'more iteration')} not drawn."
    return told


def _opened(runs: Sequence[Run], count: int, telling: set[int]) -> set[int]:
    """Those open from the start: the first ones that look new, and where a rule is flagged for the first time."""
    opened: set[int] = set()
    for at in range(count):
        # what only the fixed copy still did, or what was cut off, is of less interest
        new = at == 0 or (_shapes(runs, at) != _shapes(runs, at - 1) and runs[0].steps(at))
        if (new and len(opened) < _OPEN) or at + 1 in telling:
            opened.add(at)
    return opened


def _shapes(runs: Sequence[Run], at: int) -> Hashable:
    return tuple(run.shape(at) for run in runs)


def _steps(runs: Sequence[Run], at: int) -> bool:
    return any(run.steps(at) for run in runs)


def _row(runs: Sequence[Run], at: int, lanes: tuple[str, ...], shared: int, *, opened: bool) -> Row:
    whole = len(runs) > 1 and all(run.steps(at) for run in runs)
    frame = Frame(
        lanes,
        columns=max(shared, *(len(run.row(at)) for run in runs)),
        codes=max(run.lines_of_codes(at) for run in runs),
        depth=max(depth(run.parts[at]) for run in runs if at < len(run)),
        filled=tuple(run.lanes(at) for run in runs) if whole else (),
    )
    pictures = [run.picture(at, frame, worded=opened) for run in runs]
    if len(pictures) == 2 and pictures[0] is not None and pictures[1] is not None:
        one, other = pictures[0].tallies, pictures[1].tallies
        one[:], other[:] = compared(one, other), compared(other, one)
    return Row(at + 1, f"Iteration {at + 1}{'' if _steps(runs, at) else ', without a step'}", tuple(pictures))


def _blocks(rows: Mapping[int, Row], opened: set[int], runs: Sequence[Run]) -> list[Block]:
    """In the order of the run; neighbours that are folded away share a title."""
    groups: list[list[int]] = []
    for at in rows:
        last = groups[-1][-1] if groups else None
        alone = last is None or at in opened or last in opened or _steps(runs, at) != _steps(runs, last)
        if alone:
            groups.append([at])
        else:
            groups[-1].append(at)
    return [
        Block(_title(group, opened, runs), [rows[at] for at in group], opened=group[0] in opened) for group in groups
    ]


def _title(group: Sequence[int], opened: set[int], runs: Sequence[Run]) -> str:
    title = f"Iteration{'s' if len(group) > 1 else ''} {span([at + 1 for at in group])}"
    if not _steps(runs, group[0]):
        return f"{title}, without a step"
    if not any(runs[0].steps(at) for at in group):
        return f"{title}: after the fix only"
    shapes = {_shapes(runs, at) for at in group}
    alike = next((at for at in sorted(opened) if shapes == {_shapes(runs, at)}), None)
    return title if alike is None else f"{title}: the same events in the same order as in iteration {alike + 1}"


def _lanes(runs: Sequence[Run], chosen: Sequence[int]) -> tuple[str, ...]:
    seen = frozenset(ALWAYS).union(*(run.lanes(at) for run in runs for at in chosen))
    return tuple(lane for lane in ORDER if lane in seen)


def _optimizers(runs: Sequence[Run]) -> list[tuple[str, int, str]]:
    run = next((run for run in runs if run.optimizers.several), None)
    return [(o.letter, o.colour, o.text) for o in run.optimizers.by_id.values()] if run is not None else []
