"""Results as plain JSON values and back: what the cache keeps, and nothing that could run code when read."""

from __future__ import annotations

from typing import Any

from gradlint.model import Cell, Edit, FileResult, Finding, Fix, FixSafety, Grade, Position, Related, Severity, Span

Plain = Any  # what `json` reads and writes


def encode(result: FileResult) -> Plain:
    """None for a clean file, the common case, so that an index of thousands stays small."""
    if not (result.findings or result.suppressed or result.notes or result.exhausted):
        return None
    cells = [[cell.number, cell.first_row, cell.rows] for cell in result.cells]
    findings = [_finding(finding) for finding in result.findings]
    return [findings, result.suppressed, list(result.notes), cells, list(result.exhausted)]


def decode(plain: Plain, path: str) -> FileResult:
    """Raises ValueError, TypeError, KeyError or IndexError on anything that `encode` did not write."""
    if plain is None:
        return FileResult(path)
    findings, suppressed, notes, cells, exhausted = plain
    return FileResult(
        path,
        tuple(_read_finding(finding) for finding in findings),
        suppressed=int(suppressed),
        notes=tuple(str(note) for note in notes),
        cells=tuple(Cell(int(number), int(first), int(rows)) for number, first, rows in cells),
        exhausted=tuple(str(what) for what in exhausted),
    )


def _span(span: Span) -> Plain:
    return [span.start.row, span.start.column, span.end.row, span.end.column]


def _read_span(plain: Plain) -> Span:
    row, column, end_row, end_column = (int(number) for number in plain)
    return Span(Position(row, column), Position(end_row, end_column))


def _finding(finding: Finding) -> Plain:
    return [
        finding.code,
        finding.name,
        int(finding.severity),
        finding.message,
        _span(finding.span),
        [[_span(related.span), related.message] for related in finding.related],
        None if finding.fix is None else _fix(finding.fix),
        finding.grade.value,
    ]


def _fix(fix: Fix) -> Plain:
    return [fix.safety.value, fix.message, [[_span(edit.span), edit.content] for edit in fix.edits]]


def _read_finding(plain: Plain) -> Finding:
    code, name, severity, message, span, related, fix, grade = plain
    return Finding(
        str(code),
        str(name),
        Severity(severity),
        str(message),
        _read_span(span),
        tuple(Related(_read_span(place), str(said)) for place, said in related),
        None if fix is None else _read_fix(fix),
        Grade(grade),
    )


def _read_fix(plain: Plain) -> Fix:
    safety, message, edits = plain
    return Fix(FixSafety(safety), str(message), tuple(Edit(_read_span(span), str(text)) for span, text in edits))
