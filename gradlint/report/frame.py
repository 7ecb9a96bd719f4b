"""Draws the code of a finding: the line itself with carets, and the lines that tell how it came to be."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gradlint.model import FileResult, Finding, Place, Position, Span
from gradlint.report.fixes import help_text
from gradlint.report.paint import Paint
from gradlint.report.paths import harmless

_TAB = "    "
_WIDEST = 140
_PLAIN_FILE = FileResult("")


class Mark(NamedTuple):
    """One underlined place, with what happened there."""

    span: Span
    sign: str
    text: str


def split_lines(text: str) -> list[str]:
    """Lines as Python counts rows: form feeds and exotic separators do not end one."""
    return re.split(r"\r\n|\r|\n", text)


def frame(finding: Finding, lines: Sequence[str], paint: Paint, result: FileResult = _PLAIN_FILE) -> Iterator[str]:
    """The lines of the code frame, in the order of the file; nothing if the file has changed meanwhile."""
    marks = [Mark(finding.span, "^", "")]
    marks += [Mark(related.span, "-", harmless(related.message)) for related in finding.related]
    marks = [mark for mark in marks if 1 <= mark.span.start.row <= len(lines)]
    if not marks:
        return
    places = {row: result.place(Position(row, 1)) for row in range(1, len(lines) + 1)} if result.cells else {}
    rows = _rows_to_show(finding, marks, lines, places)
    gutter = max(len(str(_shown(row, places))) for row in rows)
    bar = paint(f"{' ' * gutter} |", "gutter")
    yield bar
    previous = rows[0] - 1
    cell = _cell(finding.span.start.row, places)  # the one that is named above the frame
    for row in rows:
        if _cell(row, places) != cell:
            cell = _cell(row, places)
            yield paint(f"{' ' * gutter} ::: cell {cell}", "gutter")
        elif row > previous + 1:
            yield paint("...", "gutter")
        at_row = [mark for mark in marks if mark.span.start.row == row]
        yield from _row(_shown(row, places), lines[row - 1], at_row, gutter, paint)
        previous = row
    yield bar
    if said := help_text(finding):
        equals = paint(f"{' ' * gutter} =", "gutter")
        yield f"{equals} {paint('help', 'story')}: {harmless(said)}"


def _shown(row: int, places: dict[int, Place]) -> int:
    """The number of a row: in a notebook, that of the cell."""
    return places[row].row if row in places else row


def _cell(row: int, places: dict[int, Place]) -> int | None:
    return places[row].cell if row in places else None


def _rows_to_show(
    finding: Finding, marks: Sequence[Mark], lines: Sequence[str], places: dict[int, Place]
) -> list[int]:  # fmt: skip
    """Marked rows, one row of context round the finding, and single rows that `...` would not shorten."""
    rows = {mark.span.start.row for mark in marks}
    at = finding.span.start.row
    near = (row for row in (at - 1, at + 1) if _cell(row, places) == _cell(at, places))
    rows |= {row for row in near if 1 <= row <= len(lines) and lines[row - 1].strip()}
    rows |= {row for row in range(min(rows), max(rows)) if row - 1 in rows and row + 1 in rows}
    return sorted(rows)


def _row(row: int, line: str, marks: Sequence[Mark], gutter: int, paint: Paint) -> Iterator[str]:
    shown = _Line(line, min((mark.span.start.column for mark in marks), default=1))
    number = paint(f"{row:>{gutter}} |", "gutter")
    yield f"{number} {shown.text}".rstrip()
    blank = paint(f"{' ' * gutter} |", "gutter")
    for mark in sorted(marks, key=lambda mark: (mark.sign != "^", mark.span.start.column)):
        end = mark.span.end.column if mark.span.end.row == mark.span.start.row else len(line.rstrip()) + 1
        start, width = shown.place(mark.span.start.column, end)
        role = "error" if mark.sign == "^" else "story"
        text = f"{mark.sign * width} {mark.text}".rstrip()
        yield f"{blank} {' ' * start}{paint(text, role)}"


class _Line:
    """A source line made fit for a terminal, and where its characters ended up."""

    def __init__(self, line: str, around: int) -> None:
        pieces = [visible(char) for char in line]
        offsets = [0]
        for piece in pieces:
            offsets.append(offsets[-1] + _width(piece))
        first, last = 0, len(pieces)
        self._shift = 0
        lead, tail = "", ""
        if offsets[-1] > _WIDEST:  # minified or generated: show the part that matters
            first = max(0, min(around - 1, len(pieces)) - 40) if offsets[min(around, len(pieces))] > _WIDEST - 40 else 0
            last = first
            while last < len(pieces) and offsets[last + 1] - offsets[first] <= _WIDEST:
                last += 1
            lead, tail = ("…" if first else ""), ("…" if last < len(pieces) else "")
            self._shift = len(lead) - offsets[first]
        self._offsets = offsets
        self._limit = offsets[last] + self._shift
        self.text = lead + "".join(pieces[first:last]) + tail

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where a range of columns is drawn, and how wide; never less than one sign."""
        left = self._offset(start)
        return left, max(1, min(self._offset(end), self._limit) - left)

    def _offset(self, column: int) -> int:
        return self._offsets[min(max(column - 1, 0), len(self._offsets) - 1)] + self._shift


def visible(char: str) -> str:
    """Tabs become spaces, and control characters (an escape code in a comment) a harmless sign."""
    if char == "\t":
        return _TAB
    if char.isprintable() or unicodedata.combining(char):
        return char
    return " " if char.isspace() else "\N{REPLACEMENT CHARACTER}"


def _width(piece: str) -> int:
    if piece.isascii():
        return len(piece)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in piece
    )
