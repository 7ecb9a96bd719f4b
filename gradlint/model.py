"""The plain data that crosses every boundary: findings, edits, severities, locations, outcomes."""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from gradlint.records import dataclass, field, replace

#: the rules about gradlint itself: a file that cannot be read, a comment that silences nothing, or nothing that exists
SYNTAX_ERROR, UNUSED_SUPPRESSION, UNKNOWN_SUPPRESSION = "GL900", "GL901", "GL902"

# with those that make a terminal show text in another order than it has
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str) -> str:
    """On one line, and without what a terminal would obey: what it quotes may have come from anywhere."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


#: what ends a line, to Python: no form feed and no exotic separator
LINE_END = re.compile(r"\r\n|\r|\n")


def split_lines(text: str) -> list[str]:
    """Lines without their ends, as Python counts rows."""
    return LINE_END.split(text)


def counted(count: int, one: str, many: str = "") -> str:
    """`1 step`, `2 steps`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


class Severity(enum.IntEnum):
    """How much a finding matters; the order is the order of `--fail-on`."""

    ADVICE = 1
    WARNING = 2
    ERROR = 3

    @property
    def label(self) -> str:
        return self.name.lower()


class Grade(enum.Enum):
    """What a finding is made of: things that were seen, or things of which one is only guessed, by its name."""

    SEEN = "seen"
    GUESSED = "guessed"


class FixSafety(enum.Enum):
    """What a rule's fixer promises; NONE for a rule with no mechanical fix."""

    NONE = "none"
    SAFE = "safe"
    UNSAFE = "unsafe"


class Category(enum.Enum):
    """The families of rules; the value is the heading people read."""

    CLIPPING = "Clipping"
    MIXED_PRECISION = "Mixed precision"
    ACCUMULATION = "Accumulation"
    LOOP = "The loop"
    DISTRIBUTED = "Distributed"
    NUMERICS = "Loss numerics"
    MODEL = "Model and monitoring"
    META = "gradlint itself"


#: what the first digit of a code says
FAMILIES = dict(zip("12345679", Category, strict=True))


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file: row and column both start at 1, columns count characters (as in ruff's JSON)."""

    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of a file."""

    start: Position
    end: Position

    @property
    def rows(self) -> range:
        """The rows that it is on; a range that ends with its line is not on the next one."""
        ends_before = self.end.column == 1 and self.end.row > self.start.row
        return range(self.start.row, self.end.row + (not ends_before))


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of a span by `content`."""

    span: Span
    content: str

    def below(self, rows: int) -> Edit:
        """The same so many rows further down."""
        start, end = self.span.start, self.span.end
        return Edit(Span(Position(start.row + rows, start.column), Position(end.row + rows, end.column)), self.content)


@dataclass(frozen=True, slots=True)
class Fix:
    """A checked rewrite that removes a finding."""

    safety: FixSafety
    message: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Related:
    """One line of the story: another place, and what happened there."""

    span: Span
    message: str
    #: the file, where it is another one than the finding's
    path: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake at one place of one file."""

    code: str
    name: str
    severity: Severity
    message: str
    span: Span
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
    grade: Grade = Grade.SEEN
    #: the file, where it is another one than that which was analysed
    path: str = ""
    #: the rows of the functions that its paths start with, if all of them start with one: a caller may know better
    entries: tuple[int, ...] = ()

    def with_severity(self, severity: Severity) -> Finding:
        return replace(self, severity=severity)

    def fixable(self, *, unsafe: bool) -> bool:
        """Whether there is a fix that may be applied: a safe one, or any if unsafe ones are wanted."""
        return self.fix is not None and (unsafe or self.fix.safety is FixSafety.SAFE)


@dataclass(frozen=True, slots=True)
class RuleCrash:
    """A rule (or the engine, as rule "engine") raised on a file; the other rules' findings still count."""

    rule: str
    error: str
    traceback: str

    @classmethod
    def of(cls, rule: str, error: BaseException) -> RuleCrash:
        """An exception as a value."""
        import traceback  # half a millisecond, and nothing crashes

        shown = "".join(traceback.format_exception(error, limit=-8))
        return cls(rule, f"{type(error).__name__}: {error}", shown)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that could not be linted at all (binary, vanished, no permission); not a finding."""

    reason: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell of a notebook: its number (from 1, text cells counted), and where it stands in the program."""

    number: int
    first_row: int
    rows: int


@dataclass(frozen=True, slots=True)
class Place:
    """A position as people are told it: in a notebook the row is that of the cell."""

    cell: int | None
    row: int
    column: int

    def __str__(self) -> str:
        return f"{'' if self.cell is None else f'cell {self.cell}:'}{self.row}:{self.column}"

    @property
    def said(self) -> str:
        """`line 12`, `cell 3, line 2`."""
        return f"line {self.row}" if self.cell is None else f"cell {self.cell}, line {self.row}"

    @property
    def in_cell(self) -> str:
        """`cell 3, line 2: `, in front of a message whose own line is that of the file; "" outside of notebooks."""
        return "" if self.cell is None else f"{self.said}: "


def place_in(cells: Sequence[Cell], position: Position) -> Place:
    """Where a position of a program is for people: in its file, or in a cell of the notebook."""
    for cell in reversed(cells):
        if cell.first_row <= position.row:
            return Place(cell.number, position.row - cell.first_row + 1, position.column)
    return Place(None, position.row, position.column)


@dataclass(frozen=True, slots=True)
class FileResult:
    """All that linting one file gave. Plain data: it is pickled, cached and sent between processes.

    A notebook is linted as one program: all positions are rows of that program, and `cells` tells what they mean.
    """

    path: str
    findings: tuple[Finding, ...] = ()
    crashes: tuple[RuleCrash, ...] = ()
    unreadable: Unreadable | None = None
    suppressed: int = 0
    notes: tuple[str, ...] = field(default=())
    cells: tuple[Cell, ...] = ()
    #: what was not followed for want of steps: there, mistakes may have been missed
    exhausted: tuple[str, ...] = ()
    #: what was found in other files, and the functions of other files (path and row) that were followed to their ends
    elsewhere: tuple[Finding, ...] = ()
    #: (with whether all ways there were)
    reached: tuple[tuple[str, int, bool], ...] = ()
    #: places in other files (path, first and last row) where a comment silences what was found there
    silenced: tuple[tuple[str, int, int], ...] = ()
    #: every other file that was asked for, with a digest of what it held, or None if it was not there
    probes: tuple[tuple[str, str | None], ...] = ()

    def beside(self, path: str) -> FileResult:
        """The file that a line of a story stands in: this one, or another."""
        return FileResult(path) if path else self

    def place(self, position: Position) -> Place:
        return place_in(self.cells, position)

    def within(self, span: Span) -> Span:
        """A span in rows of its cell, if it is in one."""
        start, end = self.place(span.start), self.place(span.end)
        return Span(Position(start.row, start.column), Position(end.row, end.column))

    def ordered(self) -> list[Finding]:
        """The findings in reading order."""
        return in_order(self.findings)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """As people read a file, whatever order the rules ran in."""
    return sorted(findings, key=lambda finding: (finding.span.start, finding.code, finding.message))


def mended(told: Sequence[Finding], left: FileResult) -> tuple[Finding, ...]:
    """What was told and is not there any more; findings of a rule are counted, as their places have moved."""
    still = Counter(finding.code for finding in left.findings)
    gone = []
    for finding in reversed(told):
        if still[finding.code] > 0:
            still[finding.code] -= 1
        else:
            gone.append(finding)
    return tuple(reversed(gone))


@dataclass(frozen=True, slots=True)
class Fixed:
    """What fixing one file gave: the new text (the same bytes if nothing was to do), what was mended, what is left."""

    source: bytes
    applied: tuple[Finding, ...]
    result: FileResult
    #: what a check tells of the text as it was: of findings that repeat each other one, and nothing that fixes uncover
    told: tuple[Finding, ...] = ()

    @property
    def mended(self) -> tuple[Finding, ...]:
        """Those of the told findings that are gone, by whatever fix."""
        return mended(self.told, self.result)
