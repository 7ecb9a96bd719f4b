"""What is open in the editor: documents and notebooks, each a program to lint."""

from __future__ import annotations

import asyncio
import io
import tokenize
from collections.abc import Iterable, Sequence
from typing import Any

from lsprotocol import types

from gradlint.config.settings import Settings
from gradlint.documents.notebook import CodeCell, shown_program
from gradlint.lsp.buffers import Buffer
from gradlint.lsp.positions import Shift, Spot
from gradlint.model import FileResult, Finding
from gradlint.records import dataclass, field
from gradlint.report.frame import split_lines

Diagnostics = dict[str, list[types.Diagnostic]]


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
        self.cells: dict[int, Buffer] | None = None
        self._buffers: dict[str, Buffer] = {}
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

    @property
    def is_notebook(self) -> bool:
        return self.cells is not None

    def with_text(self, buffer: Buffer) -> Program:
        self._buffers = {buffer.uri: buffer}
        return self

    def with_cells(self, cells: dict[int, Buffer]) -> Program:
        self.cells = cells
        self._buffers = {buffer.uri: buffer for buffer in cells.values()}
        self.shown = {uri: shown for uri, shown in self.shown.items() if uri in self._buffers}
        return self

    def buffers(self) -> Iterable[Buffer]:
        return self._buffers.values()

    def buffer(self, uri: str) -> Buffer:
        return self._buffers[uri]

    def uris(self) -> dict[int, str]:
        """The documents of a notebook's cells, by number."""
        return {number: buffer.uri for number, buffer in (self.cells or {}).items()}

    def code_cells(self) -> tuple[CodeCell, ...] | None:
        return None if self.cells is None else tuple(CodeCell(n, buffer.text) for n, buffer in self.cells.items())

    def lines(self) -> Sequence[str]:
        """Those that the findings' rows count."""
        if self.cells is not None:
            return split_lines(shown_program(self.code_cells() or ()))
        return next(iter(self._buffers.values())).lines

    def source(self) -> bytes:
        """The text in the encoding that it says it has, for Python would read it so."""
        text = next(iter(self._buffers.values())).text
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
