"""What the editor has open: texts in its own units, and the programs that they are or are cells of."""

from __future__ import annotations

import asyncio
import io
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from lsprotocol import types
from pygls.uris import to_fs_path

from gradlint.config.settings import Settings
from gradlint.documents.notebook import CodeCell, shown_program
from gradlint.model import LINE_END, Edit, FileResult, Finding, Position, Span, split_lines
from gradlint.python.source import lines_of
from gradlint.records import dataclass, field
from gradlint.repair.edits import ends
from gradlint.report.lsp import Width, utf16

Diagnostics = dict[str, list[types.Diagnostic]]
_LANGUAGE = "python"


# -- how an editor counts ----------------------------------------------------------------------------------------------


def _utf8(line: str, characters: int) -> int:
    return len(line[:characters].encode("utf-8", "surrogatepass"))


def _utf32(line: str, characters: int) -> int:
    return min(characters, len(line))


WIDTHS: dict[str, Width] = {"utf-8": _utf8, "utf-16": utf16, "utf-32": _utf32}


def characters(line: str, units: int, width: Width) -> int:
    """How many characters of a line so many units are; never beyond its end, never half a character."""
    if line.isascii() or width is _utf32:
        return min(max(units, 0), len(line))
    low, high = 0, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if width(line, middle) <= units else (low, middle - 1)
    return low


class Spot(NamedTuple):
    """A place as the protocol has it: line and character from 0, in the units of the editor."""

    line: int
    character: int


class Shift(NamedTuple):
    """What a change does to the places of a text: all between `start` and `end` is replaced, up to `now`."""

    start: Spot
    end: Spot
    now: Spot

    @classmethod
    def of(cls, start: Spot, end: Spot, text: str, width: Width) -> Shift:
        *above, last = split_lines(text)
        reached = width(last, len(last))
        if above:
            return cls(start, end, Spot(start.line + len(above), reached))
        return cls(start, end, Spot(start.line, start.character + reached))

    def moved(self, start: Spot, end: Spot) -> tuple[Spot, Spot] | None:
        """Where a range is now; None if all of it was taken away."""
        begins = start if start < self.start else self._after(max(start, self.end))
        if start == end:
            return None if self.start < start < self.end else (begins, begins)
        ends = end if end <= self.start else self.start if end < self.end else self._after(end)
        return (begins, ends) if begins < ends else None

    def _after(self, spot: Spot) -> Spot:
        if spot.line == self.end.line:
            return Spot(self.now.line, self.now.character + spot.character - self.end.character)
        return Spot(spot.line + self.now.line - self.end.line, spot.character)


# -- texts and programs ------------------------------------------------------------------------------------------------


class Text:
    """One document of the editor: a file, something unsaved, or a cell of a notebook."""

    def __init__(self, uri: str, version: int | None, text: str, width: Width) -> None:
        self.uri = uri
        self.version = version
        self.width = width
        self._content = text

    @property
    def content(self) -> str:
        return self._content

    @cached_property
    def lines(self) -> list[str]:
        """Lines without their ends; as in Python, form feeds and exotic separators do not end one."""
        return split_lines(self._content)

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
        before, after = lines_of(self._content), lines_of(text)
        head, tail = ends(before, after)
        new = "".join(after[head : len(after) - tail])
        return self._replace(
            types.Range(types.Position(head, 0), types.Position(len(before) - tail, 0)), new, whole=text
        )

    def _replace(self, place: types.Range, text: str, whole: str | None = None) -> Shift:
        starts = [0, *(found.end() for found in LINE_END.finditer(self._content))]
        (start, low), (end, high) = self._inside(place.start, starts), self._inside(place.end, starts)
        self._content = self._content[:low] + text + self._content[max(low, high) :] if whole is None else whole
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


@dataclass(slots=True)
class Analysis:
    """What linting a program gave, and of which text and settings that is true."""

    revision: int
    settings: Settings | None
    result: FileResult
    #: the findings of these rules again, with their fixes; filled when somebody asks
    offers: dict[str, tuple[Finding, ...]] = field(default_factory=dict)


class Program:
    """A text document, or all code cells of a notebook together."""

    def __init__(self, uri: str, path: str | None) -> None:
        self.uri = uri
        #: None for what has no file, such as something unsaved
        self.path = path
        self.cells: dict[int, Text] | None = None
        self._texts: dict[str, Text] = {}
        self.revision = 0
        #: whether the text is as it was opened or saved, rather than in the midst of typing
        self.settled = True
        self.analysis: Analysis | None = None
        #: what the editor shows, or should show, by document; moved along with every change
        self.shown: Diagnostics = {}
        #: when it is linted next
        self.due: asyncio.Task[None] | None = None
        #: what goes on for the text as it is, and is of no use for any other
        self.pending: asyncio.Task[Analysis] | None = None
        self.work: set[asyncio.Task[Any]] = set()
        self.offering = asyncio.Lock()
        #: what is said of it by itself, but not by those who know its callers: code and message
        self.hushed: frozenset[tuple[str, str]] = frozenset()

    @property
    def is_notebook(self) -> bool:
        return self.cells is not None

    def with_text(self, text: Text) -> Program:
        self._texts = {text.uri: text}
        return self

    def with_cells(self, cells: dict[int, Text]) -> Program:
        self.cells = cells
        self._texts = {text.uri: text for text in cells.values()}
        self.shown = {uri: shown for uri, shown in self.shown.items() if uri in self._texts}
        return self

    def texts(self) -> Iterable[Text]:
        return self._texts.values()

    def text(self, uri: str) -> Text:
        return self._texts[uri]

    def uris(self) -> dict[int, str]:
        """The documents of a notebook's cells, by number."""
        return {number: text.uri for number, text in (self.cells or {}).items()}

    def code_cells(self) -> tuple[CodeCell, ...] | None:
        return None if self.cells is None else tuple(CodeCell(n, text.content) for n, text in self.cells.items())

    def lines(self) -> Sequence[str]:
        """Those that the findings' rows count."""
        if self.cells is not None:
            return split_lines(shown_program(self.code_cells() or ()))
        return next(iter(self._texts.values())).lines

    def source(self) -> bytes:
        """The text in the encoding that it says it has, for Python would read it so."""
        text = next(iter(self._texts.values())).content
        try:
            head = "\n".join(text.split("\n", 2)[:2]).encode("utf-8")
            return text.encode(tokenize.detect_encoding(io.BytesIO(head).readline)[0])
        except (SyntaxError, LookupError, UnicodeError):
            return text.encode("utf-8", "replace")  # the protocol's JSON can hold half a character, and Python cannot

    def changed(self, uri: str, shifts: Iterable[Shift]) -> None:
        """The text is another one; what is shown moves with it."""
        self.revision += 1
        self.settled = False
        self.stop()
        for shift in shifts:
            for where, diagnostics in self.shown.items():
                moved = (_moved(diagnostic, where == uri, uri, shift) for diagnostic in diagnostics)
                self.shown[where] = [diagnostic for diagnostic in moved if diagnostic is not None]

    def stop(self) -> None:
        """Nobody waits any more for what goes on."""
        for task in (self.due, self.pending, *self.work):
            if task is not None:
                task.cancel()
        self.due = self.pending = None

    def current(self, settings: Settings | None) -> Analysis | None:
        """What is known of the text as it is now."""
        known = self.analysis
        fresh = known is not None and known.revision == self.revision and known.settings == settings
        return known if fresh else None


def structured(made: dict[str, Any]) -> types.Diagnostic:
    """A diagnostic as the protocol's library has it; its own converter takes a tenth of a second to get ready."""
    story = [
        types.DiagnosticRelatedInformation(
            types.Location(told["location"]["uri"], _range(told["location"]["range"])), told["message"]
        )
        for told in made.get("relatedInformation", ())
    ]
    return types.Diagnostic(
        _range(made["range"]),
        made["message"],
        types.DiagnosticSeverity(made["severity"]),
        made["code"],
        types.CodeDescription(made["codeDescription"]["href"]),
        made["source"],
        related_information=story or None,
        data=made["data"],
    )


def _range(made: dict[str, Any]) -> types.Range:
    return types.Range(*(types.Position(made[side]["line"], made[side]["character"]) for side in ("start", "end")))


def _moved(diagnostic: types.Diagnostic, own: bool, uri: str, shift: Shift) -> types.Diagnostic | None:
    place = _range_moved(diagnostic.range, shift) if own else diagnostic.range
    if place is None:
        return None
    story = []
    for told in diagnostic.related_information or []:
        where = _range_moved(told.location.range, shift) if told.location.uri == uri else told.location.range
        if where is not None:
            story.append(types.DiagnosticRelatedInformation(types.Location(told.location.uri, where), told.message))
    return types.Diagnostic(
        place,
        diagnostic.message,
        diagnostic.severity,
        diagnostic.code,
        diagnostic.code_description,
        diagnostic.source,
        related_information=story or None,
        data=None,  # its edits were for the text as it was
    )


def _range_moved(place: types.Range, shift: Shift) -> types.Range | None:
    start, end = (Spot(p.line, p.character) for p in (place.start, place.end))
    moved = shift.moved(start, end)
    return None if moved is None else types.Range(*(types.Position(*spot) for spot in moved))


class Texts:
    """Follows what the editor opens, changes and closes."""

    def __init__(self, width: Width) -> None:
        self._width = width
        self._programs: dict[str, Program] = {}
        #: notebooks by the addresses of their cells, and all cells of each in order
        self._notebook_of: dict[str, Program] = {}
        self._order: dict[str, list[types.NotebookCell]] = {}
        self._cells: dict[str, Text] = {}

    def __iter__(self) -> Iterator[Program]:
        return iter(list(self._programs.values()))

    def program(self, uri: str) -> Program | None:
        """The program that a document is, or is a cell of."""
        return self._programs.get(uri) or self._notebook_of.get(uri)

    def forget_offers(self) -> None:
        """What a fix would change may be what a caller in another file does right."""
        for program in self:
            if program.analysis is not None:
                program.analysis.offers = {}

    # -- documents

    def open_text(self, document: types.TextDocumentItem) -> Program | None:
        """None for what is not Python."""
        if document.language_id != _LANGUAGE:
            return None
        self.close(document.uri)
        program = Program(document.uri, to_fs_path(document.uri)).with_text(self._text_of(document))
        self._programs[document.uri] = program
        return program

    def change_text(
        self, document: types.VersionedTextDocumentIdentifier,
        changes: Sequence[types.TextDocumentContentChangeEvent],
    ) -> Program | None:  # fmt: skip
        program = self._programs.get(document.uri)
        if program is not None:
            shifts = program.text(document.uri).change(document.version, changes)
            program.changed(document.uri, shifts)
        return program

    def close(self, uri: str) -> Program | None:
        """Take a document or a notebook away."""
        program = self._programs.pop(uri, None)
        if program is not None:
            program.stop()
            for cell in self._order.pop(uri, ()):
                self._notebook_of.pop(cell.document, None)
                self._cells.pop(cell.document, None)
        return program

    # -- notebooks

    def open_notebook(self, notebook: types.NotebookDocument, texts: Iterable[types.TextDocumentItem]) -> Program:
        self.close(notebook.uri)
        program = self._programs[notebook.uri] = Program(notebook.uri, to_fs_path(notebook.uri))
        self._order[notebook.uri] = list(notebook.cells)
        self._open_cells(texts)
        self._arrange(program)
        return program

    def change_notebook(self, uri: str, change: types.NotebookDocumentChangeEvent) -> tuple[Program | None, list[str]]:
        """The notebook, and the addresses of the cells that are gone from it."""
        program, cells = self._programs.get(uri), change.cells
        if program is None or cells is None:
            return None, []
        gone = self._rearrange(program, cells.structure) if cells.structure is not None else []
        for content in cells.text_content or ():
            text = self._cells.get(content.document.uri)
            if text is not None:
                program.changed(text.uri, text.change(content.document.version, content.changes))
        return program, gone

    def _rearrange(self, program: Program, structure: types.NotebookDocumentCellChangeStructure) -> list[str]:
        array, order = structure.array, self._order[program.uri]
        order[array.start : array.start + array.delete_count] = array.cells or []
        self._open_cells(structure.did_open or ())
        gone = [closed.uri for closed in structure.did_close or ()]
        for cell in gone:
            self._cells.pop(cell, None)
            self._notebook_of.pop(cell, None)
        self._arrange(program)
        program.changed("", ())
        return gone

    def _open_cells(self, texts: Iterable[types.TextDocumentItem]) -> None:
        for text in texts:
            if text.language_id == _LANGUAGE:
                self._cells[text.uri] = self._text_of(text)

    def _arrange(self, program: Program) -> None:
        cells = enumerate(self._order[program.uri], start=1)
        program.with_cells({n: self._cells[cell.document] for n, cell in cells if cell.document in self._cells})
        for text in program.texts():
            self._notebook_of[text.uri] = program

    def _text_of(self, document: types.TextDocumentItem) -> Text:
        return Text(document.uri, document.version, document.text, self._width)
