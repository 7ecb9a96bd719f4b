"""The text of an open document, kept as the editor changes it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from lsprotocol import types

from gradlint.comments import lines_of
from gradlint.lsp.positions import Shift, Spot, Width, characters
from gradlint.model import Edit, Position, Span
from gradlint.report.frame import split_lines

_LINE_END = re.compile(r"\r\n|\r|\n")


class Buffer:
    """One document of the editor: a file, something unsaved, or a cell of a notebook."""

    def __init__(self, uri: str, version: int | None, text: str, width: Width) -> None:
        self.uri = uri
        self.version = version
        self.width = width
        self._text = text

    @property
    def text(self) -> str:
        return self._text

    @cached_property
    def lines(self) -> list[str]:
        """Lines without their ends; as in Python, form feeds and exotic separators do not end one."""
        return split_lines(self._text)

    def change(self, version: int | None, changes: Iterable[types.TextDocumentContentChangeEvent]) -> list[Shift]:
        """Make the changes, and tell how each has moved what stands behind it."""
        self.version = version
        made = []
        for change in changes:
            if isinstance(change, types.TextDocumentContentChangePartial):
                made.append(self._replace(change.range, change.text))
            else:
                made.append(self._renew(change.text))
        return made

    def _renew(self, text: str) -> Shift:
        """The whole text is sent anew; most of its lines are those that were there, and places on them stay known."""
        before, after = lines_of(self._text), lines_of(text)
        most = min(len(before), len(after))
        head = next((n for n in range(most) if before[n] != after[n]), most)
        tail = next((n for n in range(most - head) if before[-1 - n] != after[-1 - n]), most - head)
        new = "".join(after[head : len(after) - tail])
        return self._replace(
            types.Range(types.Position(head, 0), types.Position(len(before) - tail, 0)), new, whole=text
        )

    def _replace(self, place: types.Range, text: str, whole: str | None = None) -> Shift:
        starts = [0, *(found.end() for found in _LINE_END.finditer(self._text))]
        (start, low), (end, high) = self._inside(place.start, starts), self._inside(place.end, starts)
        self._text = self._text[:low] + text + self._text[max(low, high) :] if whole is None else whole
        self.__dict__.pop("lines", None)
        return Shift.of(start, max(start, end), text, self.width)

    def _inside(self, place: types.Position, starts: list[int]) -> tuple[Spot, int]:
        """The place, and its offset in the text; what lies beyond the end of a line or of the text is its end."""
        row = min(max(place.line, 0), len(starts) - 1)
        line = self.lines[row]
        column = len(line) if place.line > row else characters(line, place.character, self.width)
        return Spot(row, self.width(line, column)), starts[row] + column

    def place(self, position: Position) -> types.Position:
        """A position of a finding or an edit, as the editor counts."""
        line = self.lines[position.row - 1] if position.row <= len(self.lines) else ""
        return types.Position(position.row - 1, self.width(line, position.column - 1))

    def range(self, span: Span) -> types.Range:
        return types.Range(self.place(span.start), self.place(span.end))

    def position(self, place: types.Position) -> Position:
        """The other way round: a place of the editor in rows and columns from 1."""
        row = min(max(place.line, 0), len(self.lines) - 1)
        return Position(row + 1, characters(self.lines[row], place.character, self.width) + 1)

    def edits(self, edits: Iterable[Edit]) -> list[types.TextEdit]:
        return [types.TextEdit(self.range(edit.span), edit.content) for edit in edits]
