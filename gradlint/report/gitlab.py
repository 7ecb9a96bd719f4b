"""Findings as GitLab's Code Quality report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from gradlint.fingerprints import Print
from gradlint.model import Finding, Position, Severity
from gradlint.report.document import Document, Json, Report
from gradlint.report.paths import relative, root_folder, writable

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.ADVICE: "info"}


def as_gitlab(report: Report) -> Iterator[str]:
    """A list, empty for clean code."""
    root = root_folder("CI_PROJECT_DIR")
    rows = [
        _finding(finding, made, document, relative(document.path, root))
        for document in report.documents()
        for finding, made in document.fingerprinted()
    ]
    yield json.dumps(rows, indent=2)


def _finding(finding: Finding, made: Print, document: Document, path: str) -> Json:
    place = document.result.place(finding.span.start)
    return {
        # GitLab does not show the name of the check, so it is told here as well
        "description": f"{finding.code} {finding.name}: {place.in_cell}{finding.message}",
        "check_name": finding.code,
        # the same finding in a copy of the file is another one
        "fingerprint": hashlib.sha256(f"{path}\0{made.value}".encode("utf-8", "surrogatepass")).hexdigest(),
        "severity": _SEVERITIES[finding.severity],
        "location": {"path": writable(path), **_place(finding, document)},
    }


def _place(finding: Finding, document: Document) -> Json:
    """In a notebook the line of its JSON, where columns mean nothing."""
    span = finding.span
    if document.result.cells:
        return {"lines": {"begin": document.file_row(span.start)}}
    return {"positions": {"begin": _position(span.start), "end": _position(span.end)}}


def _position(position: Position) -> dict[str, int]:
    return {"line": position.row, "column": position.column}
