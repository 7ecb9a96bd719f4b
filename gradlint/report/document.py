"""What the formats are made from: the results of a run, and the text of the files that have findings."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from gradlint.documents import program_text
from gradlint.documents.cells import Joined, join
from gradlint.documents.notebook import NotANotebook, Source, read
from gradlint.fingerprints import Print, fingerprints
from gradlint.model import Edit, FileResult, Finding, Fix, Position, split_lines
from gradlint.python.source import lines_of
from gradlint.report.paths import named
from gradlint.report.text import ReadSource

#: what most formats are made of
Json = dict[str, object]


def json_rows(source: bytes) -> dict[int, list[int]]:
    """For each code cell, by number, the row in the file of each of its lines."""
    notebook = read(source)
    if isinstance(notebook, NotANotebook):
        return {}
    starts = [0, *accumulate(len(line) for line in lines_of(notebook.text))]
    return {number: list(_rows(notebook.text, own, starts)) for number, own in notebook.sources.items()}


def _rows(text: str, source: Source, starts: list[int]) -> Iterator[int]:
    """A line stands where the string begins that its first character is in."""
    begun = ""
    for offset, piece in _pieces(text, source):
        row = bisect_right(starts, offset)
        for line in lines_of(piece):
            if not begun:
                yield row
            begun = "" if line.endswith(("\n", "\r")) else line


def _pieces(text: str, source: Source) -> Iterator[tuple[int, str]]:
    """The strings that a source is made of, and where they begin."""
    if text[source.start] == '"':
        yield source.start, source.text
        return
    decoder = json.JSONDecoder()
    at = text.find('"', source.start, source.end)
    while at != -1:
        piece, end = decoder.raw_decode(text, at)
        yield at, piece
        at = text.find('"', end, source.end)


class Report(NamedTuple):
    """A run, as programs are told of it."""

    results: Sequence[FileResult]
    checked: int
    read: ReadSource
    #: what the summary says beside the number of files
    asides: Sequence[str] = ()

    def documents(self) -> Iterator[Document]:
        """The files with findings."""
        return (Document(result, self.read(result.path)) for result in self.results if result.findings)

    def findings(self) -> Iterator[tuple[Document, Finding]]:
        """All of them, in reading order."""
        return ((document, finding) for document in self.documents() for finding in document.result.ordered())

    @property
    def troubled(self) -> list[FileResult]:
        """The files that were not, or not wholly, checked."""
        return [result for result in self.results if result.crashes or result.unreadable is not None]


class CellEdit(NamedTuple):
    """An edit in rows of its cell, or of the file if it has none."""

    cell: int | None
    edit: Edit


class Document:
    """A file with findings; its text may be gone since it was linted."""

    def __init__(self, result: FileResult, source: bytes | None) -> None:
        self.result = result
        self.path = result.path
        self._source = source

    @cached_property
    def text(self) -> str | None:
        """The program that rows and columns are of."""
        return None if self._source is None else program_text(self._source, self.path)

    @cached_property
    def lines(self) -> list[str]:
        return [] if self.text is None else split_lines(self.text)

    def line(self, position: Position) -> str:
        return self.lines[position.row - 1] if position.row <= len(self.lines) else ""

    def cell_lines(self, number: int | None) -> list[str]:
        """The lines of a cell."""
        cell = next((cell for cell in self.result.cells if cell.number == number), None)
        return [] if cell is None else self.lines[cell.first_row - 1 : cell.first_row - 1 + cell.rows]

    def story(self, finding: Finding, root: str) -> Iterator[tuple[str, str]]:
        """Where else to look, in words, with other files named from the root; and what happened there."""
        for related in finding.related:
            place = self.result.beside(related.path).place(related.span.start)
            yield f"{named(related.path, root)}, {place.said}" if related.path else place.said, related.message

    def fingerprinted(self) -> Iterator[tuple[Finding, Print]]:
        """The findings in reading order, each with its fingerprint."""
        return zip(self.result.ordered(), fingerprints(self.result, self.text), strict=True)

    def edits(self, fix: Fix) -> list[CellEdit]:
        """What a fix changes, in rows as people are told them."""
        if not self.result.cells:
            return [CellEdit(None, edit) for edit in fix.edits]
        split = "" if self._joined is None else self._joined.split(fix.edits)
        if isinstance(split, str):  # the notebook has changed meanwhile
            return [self._roughly(edit) for edit in fix.edits]
        return [CellEdit(cell, edit) for cell, edits in sorted(split.items()) for edit in edits]

    def _roughly(self, edit: Edit) -> CellEdit:
        return CellEdit(self.result.place(edit.span.start).cell, Edit(self.result.within(edit.span), edit.content))

    @cached_property
    def _joined(self) -> Joined | None:
        if self._source is None:
            return None
        notebook = read(self._source)
        return None if isinstance(notebook, NotANotebook) else join(notebook.code_cells())

    def file_row(self, position: Position) -> int:
        """The row of the file itself: in a notebook, the line of its JSON that holds this line of the cell."""
        place = self.result.place(position)
        if place.cell is None:
            return place.row
        rows = self._json_rows.get(place.cell, [])
        return rows[min(place.row, len(rows)) - 1] if rows else 1

    @cached_property
    def _json_rows(self) -> dict[int, list[int]]:
        if self._source is None:
            return {}
        return json_rows(self._source)
