"""Findings as JSON, in the shape of ruff's output with the severity, the name and the story added."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator

from gradlint.model import FileResult, Finding, Place, Position, Span
from gradlint.registry import rule_url
from gradlint.report.document import CellEdit, Document, Json, Report
from gradlint.report.paths import writable
from gradlint.report.text import statistics


def as_json(report: Report) -> Iterator[str]:
    """A list, empty for clean code."""
    yield json.dumps(list(_rows(report)), indent=2)


def as_jsonl(report: Report) -> Iterator[str]:
    """The same findings, each on a line of its own."""
    return map(json.dumps, _rows(report))


def statistics_as_json(results: Iterable[FileResult], unsafe: bool) -> str:
    """In ruff's shape, with the severities added."""
    rows = [
        {
            "code": row.code,
            "name": row.name,
            "count": row.times,
            "severities": {severity.label: count for severity, count in row.severities},
            "fixable": row.fixable > 0,
            "fixable_count": row.fixable,
        }
        for row in statistics(results, unsafe)
    ]
    return json.dumps(rows, indent=2)


def _rows(report: Report) -> Iterator[Json]:
    return (_finding(finding, document) for document, finding in report.findings())


def _finding(finding: Finding, document: Document) -> Json:
    result = document.result
    start = result.place(finding.span.start)
    return {
        "cell": start.cell,
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.label,
        "grade": finding.grade.value,
        "message": finding.message,
        "filename": result.path if result.path == "-" else writable(os.path.abspath(result.path)),
        **_locations(finding.span, result),
        "noqa_row": start.row,
        "url": rule_url(finding.code),
        "fix": None
        if finding.fix is None
        else {
            "applicability": finding.fix.safety.value,
            "message": finding.fix.message,
            "edits": [_edit(edit) for edit in document.edits(finding.fix)],
        },
        "related": [
            {
                "message": related.message,
                **({"filename": writable(related.path)} if related.path else {}),
                **_cell(there.place(related.span.start).cell),
                **_locations(related.span, there),
            }
            for related in finding.related
            for there in (result.beside(related.path),)
        ],
        # beside every finding of the file: the list has no place for what is said of a file
        **({"exhausted": list(result.exhausted)} if result.exhausted else {}),
    }


def _edit(change: CellEdit) -> Json:
    span = change.edit.span
    return {
        "content": change.edit.content,
        **_cell(change.cell),
        "location": _position(span.start),
        "end_location": _position(span.end),
    }


def _cell(number: int | None) -> Json:
    """Edits and the story may be in another cell than the finding."""
    return {} if number is None else {"cell": number}


def _locations(span: Span, result: FileResult) -> Json:
    return {"location": _position(result.place(span.start)), "end_location": _position(result.place(span.end))}


def _position(position: Position | Place) -> dict[str, int]:
    return {"row": position.row, "column": position.column}
