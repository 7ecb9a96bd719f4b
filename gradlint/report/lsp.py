"""Findings as the language server protocol has them: for `--output-format lsp`, and for the server itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradlint.model import Edit, FileResult, Finding, Position, Related, Severity, Span
from gradlint.registry import rule_url
from gradlint.report.paths import file_uri

if TYPE_CHECKING:
    from gradlint.report.document import CellEdit, Document, Report


#: DiagnosticSeverity: Error, Warning, Information
SEVERITIES = {Severity.ERROR: 1, Severity.WARNING: 2, Severity.ADVICE: 3}
#: how many units of the client so many characters of a line are
Width = Callable[[str, int], int]
_NO_CELLS: Mapping[int, str] = {}


def utf16(line: str, characters: int) -> int:
    """How many UTF-16 units so many characters of a line are; never beyond its end."""
    part = line[:characters]
    return len(part) if part.isascii() else len(part) + sum(char > "\uffff" for char in part)


def diagnostic(
    finding: Finding,
    result: FileResult,
    lines: Sequence[str],
    uri: str,
    cells: Mapping[int, str] = _NO_CELLS,
    *,
    width: Width = utf16,
) -> dict[str, object]:
    """A `Diagnostic` with its fix in `data`.

    `lines` are those of the linted program, `cells` the documents of a notebook's cells: rows are those of the cell.
    """
    places = Places(result, lines, uri, cells, width)
    made: dict[str, object] = {
        "range": places.range(finding.span),
        "severity": SEVERITIES[finding.severity],
        "code": finding.code,
        "codeDescription": {"href": rule_url(finding.code)},
        "source": "gradlint",
        "message": finding.message,
        "data": _data(finding, [] if finding.fix is None else [places.text_edit(edit) for edit in finding.fix.edits]),
    }
    if finding.related:
        made["relatedInformation"] = [
            {
                "location": _elsewhere(said)
                if said.path
                else {"uri": places.uri(said.span.start), "range": places.range(said.span)},
                "message": said.message,
            }
            for said in finding.related
        ]
    return made


def _elsewhere(said: Related) -> dict[str, object]:
    """A line of another file, of which only rows and columns are known."""
    start, end = said.span.start, said.span.end
    return {
        "uri": file_uri(said.path),
        "range": {
            "start": {"line": start.row - 1, "character": start.column - 1},
            "end": {"line": end.row - 1, "character": end.column - 1},
        },
    }


class Places(NamedTuple):
    """Where positions are for an editor: lines and characters from 0, characters in the client's units."""

    result: FileResult
    lines: Sequence[str]
    address: str
    cells: Mapping[int, str] = _NO_CELLS
    width: Width = utf16

    def uri(self, position: Position) -> str:
        cell = self.result.place(position).cell
        return self.address if cell is None else self.cells.get(cell, self.address)

    def position(self, position: Position) -> dict[str, int]:
        line = self.lines[position.row - 1] if position.row <= len(self.lines) else ""
        row = self.result.place(position).row
        return {"line": row - 1, "character": self.width(line, position.column - 1)}

    def range(self, span: Span) -> dict[str, object]:
        return {"start": self.position(span.start), "end": self.position(span.end)}

    def text_edit(self, edit: Edit) -> dict[str, object]:
        return {"range": self.range(edit.span), "newText": edit.content}


def _data(finding: Finding, edits: list[dict[str, object]]) -> dict[str, object]:
    fix = finding.fix
    offered = None if fix is None else {"message": fix.message, "safety": fix.safety.value, "edits": edits}
    return {"code": finding.code, "name": finding.name, "fix": offered}


def as_lsp(report: Report) -> Iterator[str]:
    """The parameters of `textDocument/publishDiagnostics`, a line for each document with findings.

    In a notebook every cell is a document, as the protocol has it; `#cell=3` behind the file's address names it.
    """
    for document in report.documents():
        uri, result = file_uri(document.path), document.result
        cells = {cell.number: f"{uri}#cell={cell.number}" for cell in result.cells}
        told: dict[str, list[dict[str, object]]] = {}
        for finding in result.ordered():
            made = diagnostic(finding, result, document.lines, uri, cells)
            if cells and finding.fix is not None:
                made["data"] = _data(finding, [_cell_edit(document, cells, e) for e in document.edits(finding.fix)])
            told.setdefault(cells.get(result.place(finding.span.start).cell or 0, uri), []).append(made)
        for name, diagnostics in told.items():
            yield json.dumps({"uri": name, "diagnostics": diagnostics})


def _cell_edit(document: Document, cells: Mapping[int, str], change: CellEdit) -> dict[str, object]:
    """With the cell that it changes: a fix may reach into others."""
    lines = document.cell_lines(change.cell)
    places = Places(FileResult(document.path), lines, "")
    return {"uri": cells.get(change.cell or 0), **places.text_edit(change.edit)}
