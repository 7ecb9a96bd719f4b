"""Findings for reviewdog, in its Reviewdog Diagnostic Format; columns count bytes there."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gradlint.model import Finding, Fix, Position, Severity, Span
from gradlint.registry import HOME, rule_url
from gradlint.report.document import Document, Json, Report
from gradlint.report.paths import named, root_folder

_SEVERITIES = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.ADVICE: "INFO"}
_FOLDER = "GITHUB_WORKSPACE", "CI_PROJECT_DIR"


def as_rdjson(report: Report) -> Iterator[str]:
    """One object; its list is empty for clean code."""
    root = root_folder(*_FOLDER)
    found = [_diagnostic(finding, document, root) for document, finding in report.findings()]
    yield json.dumps({"source": {"name": "gradlint", "url": HOME}, "diagnostics": found}, indent=2)


def _diagnostic(finding: Finding, document: Document, root: str) -> Json:
    place = document.result.place(finding.span.start)
    # behind the message: the format has no place for it, and readers of it refuse what they do not know
    story = (f" ({where}: {said})" for where, said in document.story(finding, root))
    return {
        "message": "".join((place.in_cell, finding.message, *story)),
        "location": {"path": named(document.path, root), "range": _range(finding.span, document)},
        "severity": _SEVERITIES[finding.severity],
        "code": {"value": finding.code, "url": rule_url(finding.code)},
        **_suggestions(finding.fix, document),
    }


def _suggestions(fix: Fix | None, document: Document) -> Json:
    """Each is applied alone, so a fix of several edits would be half done; in a notebook's JSON none fits."""
    if fix is None or len(fix.edits) != 1 or document.result.cells:
        return {}
    (edit,) = fix.edits
    return {"suggestions": [{"range": _range(edit.span, document), "text": edit.content}]}


def _range(span: Span, document: Document) -> Json:
    """In a notebook the line of its JSON, where columns mean nothing."""
    if document.result.cells:
        return {"start": {"line": document.file_row(span.start)}}
    return {"start": _position(span.start, document), "end": _position(span.end, document)}


def _position(position: Position, document: Document) -> Json:
    before = document.line(position)[: position.column - 1]
    # behind the end of the line, or of a file that is gone meanwhile, characters are taken for bytes
    missing = position.column - 1 - len(before)
    return {"line": position.row, "column": len(before.encode("utf-8", "replace")) + missing + 1}
