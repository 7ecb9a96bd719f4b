"""Code cells as one program: joined in the order they are written, and what is found or mended told cell by cell.

A file that cells write (`%%writefile train.py`) is a program of its own, in the rows of the whole notebook as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gradlint.documents.escapes import Hidden, hide, holds_hidden, is_python, written
from gradlint.model import Cell, Edit, Position, Span
from gradlint.python.source import lines_of, parses
from gradlint.records import dataclass


@dataclass(frozen=True, slots=True)
class CodeCell:
    """The text of a code cell, and its number in the notebook (from 1, text cells counted)."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Joined:
    """The program that cells make together, or one that some of them write: then all other rows are empty."""

    text: str
    #: those that the program is made of
    cells: tuple[Cell, ...]
    hidden: Hidden
    #: cells that are no Python, with what Python says of each; they are left out of the program
    broken: tuple[tuple[Cell, str], ...]
    #: cells whose first line is indented, which IPython allows: how far all their lines were moved to the left
    moved: dict[int, int]
    _texts: dict[int, str]
    #: where a written file begins: nothing can be put above
    first: Position = Position(1, 1)
    #: files that cells write, and all cells that are not run as Python
    files: tuple[Joined, ...] = ()
    foreign: frozenset[int] = frozenset()

    @property
    def program(self) -> bytes:
        """JSON can hold half a character, and Python cannot."""
        return self.text.encode("utf-8", "replace")

    def shown(self, position: Position) -> Position:
        """A position of the program, as it is in the notebook."""
        for cell in self.cells if self.moved else ():
            if cell.number in self.moved and cell.first_row <= position.row < cell.first_row + cell.rows:
                return Position(position.row, position.column + self.moved[cell.number])
        return position

    def split(self, edits: Iterable[Edit]) -> dict[int, tuple[Edit, ...]] | str:
        """Edits of the program as edits of each cell's text, by number; or why they cannot be told apart so."""
        found: dict[int, list[Edit]] = {}
        for edit in edits:
            edit = self._below(edit)
            cell = self._cell_of(edit)
            if cell is None:
                return "it would reach over cells"
            if cell.number in self.moved:
                return f"cell {cell.number} is indented as a whole"
            if not self._keeps_hidden(edit):
                return "it would lose or double a line of IPython's own"
            found.setdefault(cell.number, []).append(self._within(edit, cell))
        return {number: tuple(own) for number, own in found.items()}

    def whole(self, split: Mapping[int, Iterable[Edit]]) -> tuple[Edit, ...]:
        """Edits of cells in rows of the whole notebook; none touches the beginning of the next cell."""
        places = {cell.number: cell for cell in self.cells}
        return tuple(self._placed(edit, places[number]) for number, edits in split.items() for edit in edits)

    def _placed(self, edit: Edit, cell: Cell) -> Edit:
        start, end, content = edit.span.start, edit.span.end, edit.content
        if start.row > cell.rows:  # behind a last line that has an end: in front of that end
            newline = _newline(self._texts[cell.number]) or "\n"
            start = end = Position(cell.rows, len(lines_of(self._texts[cell.number])[-1].rstrip("\r\n")) + 1)
            content = newline + content.removesuffix("\n").removesuffix("\r")
        return Edit(Span(start, end), content).below(cell.first_row - 1)

    def _below(self, edit: Edit) -> Edit:
        """What is put at the very top of a written file, or into the empty rows above it, goes to its first line."""
        start, end = edit.span.start, edit.span.end
        if start >= self.first:
            return edit
        return Edit(Span(self.first, max(end, self.first)), edit.content.lstrip("\r\n"))

    def _cell_of(self, edit: Edit) -> Cell | None:
        start, end = edit.span.start, edit.span.end
        at = next((n for n, c in enumerate(self.cells) if c.first_row <= start.row < c.first_row + c.rows), None)
        if at is None:  # behind the last row
            at = len(self.cells) - 1
        cell = self.cells[at]
        if start == end == Position(cell.first_row, 1) and at and edit.content[:1] in " \t":
            return self.cells[at - 1]  # what is indented goes on with the block above, and a block ends with its cell
        last = cell.first_row + cell.rows
        return cell if end.row < last or end == Position(last, 1) else None

    def _keeps_hidden(self, edit: Edit) -> bool:
        """A magic may be moved along, but must neither vanish nor be doubled."""
        if not self.hidden.originals:
            return True
        first, last = edit.span.start.row - 1, edit.span.end.row - (edit.span.end.column == 1)
        lines = lines_of(self.text)[first:last] if last > first else []
        touched = holds_hidden("".join(lines))
        one_row = edit.span.start.row == edit.span.end.row
        return touched == holds_hidden(edit.content) or (one_row and not touched)

    def _within(self, edit: Edit, cell: Cell) -> Edit:
        """The edit in rows of the cell, whose last line has no end as a rule."""
        newline = _newline(self._texts[cell.number])
        content = self.hidden.restored(edit.content)
        if newline is not None:  # the program as a whole may end its lines in another way
            content = re.sub(r"\r?\n", newline, content)
        start, end = (Position(p.row - cell.first_row + 1, p.column) for p in (edit.span.start, edit.span.end))
        lines = lines_of(self._texts[cell.number])
        if end.row > cell.rows and lines and not lines[-1].endswith(("\n", "\r")):
            content = content.removesuffix("\n").removesuffix("\r")
            end = Position(cell.rows, len(lines[-1]) + 1)
            if start.row > cell.rows:
                start, content = end, (newline or "\n") + content
            elif not content and start.row > 1 and start.column == 1:
                above = lines[start.row - 2].rstrip("\r\n")
                start = Position(start.row - 1, len(above) + 1)
        return Edit(Span(start, end), content)


def join(cells: Sequence[CodeCell]) -> Joined:
    """Cells in other languages, those that write files and those that do not parse become empty lines."""
    pieces: list[str] = []
    places: list[Cell] = []
    originals: list[str] = []
    broken: list[tuple[Cell, str]] = []
    foreign: list[int] = []
    moved: dict[int, int] = {}
    bodies: dict[int, str] = {}
    row = 1
    for cell in cells:
        rows = len(lines_of(cell.text))
        if not rows:
            continue
        place = Cell(cell.number, row, rows)
        text, width = _to_the_left(cell.text)
        if width:
            moved[cell.number] = width
        bodies[cell.number] = text
        hidden = hide(text, len(originals))
        if hidden is None:
            foreign.append(cell.number)
            pieces.append("\n" * rows)
        elif is_python(hidden.text):
            pieces.append(_ended(hidden.text))
            originals.extend(hidden.originals)
        else:
            broken.append((place, hidden.text))
            pieces.append("\n" * rows)
        places.append(place)
        row += rows
    texts = {cell.number: cell.text for cell in cells}
    text = _without_cookie("".join(pieces))
    files = tuple(
        Joined(made, tuple(own), Hidden(made, ()), (), moved, texts, first)
        for made, own, first in _files([place for place in places if place.number in foreign], bodies)
    )
    left_out = frozenset(foreign)
    return Joined(
        text, tuple(places), Hidden(text, tuple(originals)), tuple(broken), moved, texts, files=files, foreign=left_out
    )  # fmt: skip


def _files(cells: Sequence[Cell], bodies: Mapping[int, str]) -> Iterator[tuple[str, list[Cell], Position]]:
    """Each file that cells write, whole, in the rows of the notebook; its cells, and where its text begins."""
    parts: dict[str, list[tuple[str, list[Cell], Position]]] = {}
    for cell in cells:
        made = written(bodies[cell.number])
        if made is None:
            continue
        lines = lines_of(bodies[cell.number])[made.row :]
        before = parts.setdefault(made.name, [])
        if not made.appends or not before:  # else it is the same file, and goes on
            before.append(("", [], Position(cell.first_row + made.row, 1)))
        text, own, first = before[-1]
        gap = cell.first_row + made.row - 1 - len(lines_of(text))
        before[-1] = text + "\n" * gap + _ended("".join(lines)), [*own, cell], first
    for versions in parts.values():
        yield from versions


def _ended(text: str) -> str:
    return text if not text or text.endswith(("\n", "\r")) else f"{text}\n"


def _newline(text: str) -> str | None:
    """How the lines of a cell end; None if not all in one way."""
    ends = set(re.findall(r"\r?\n", text)) or {"\n"}
    return ends.pop() if len(ends) == 1 else None


def _to_the_left(text: str) -> tuple[str, int]:
    """As IPython does: the indentation of the first line is taken from every line that has it."""
    first = re.match(r"(?:[ \t]*\r?\n)*([ \t]+)\S", text)
    if first is None or parses(text):
        return text, 0
    return "".join(line.removeprefix(first[1]) for line in lines_of(text)), len(first[1])


def _without_cookie(text: str) -> str:
    """A cell's `# coding: latin-1` says nothing of a program that is held as text."""
    head, end, rest = text.partition("\n")
    second, more, tail = rest.partition("\n")
    lines = [re.sub(r"^([ \t\f]*#.*?)coding(?=[:=])", r"\1codinG", line) for line in (head, second)]
    return lines[0] + end + lines[1] + more + tail
