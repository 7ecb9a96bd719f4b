"""Findings as JSON, in the shape of ruff's output with the severity, the name and the story added."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from gradlint.model import Edit, FileResult, Finding, Position
from gradlint.report.text import ordered, statistics


def as_json(results: Iterable[FileResult]) -> str:
    """A list, empty for clean code."""
    rows = [_finding(finding, result.path) for result in results for finding in ordered(result)]
    return json.dumps(rows, indent=2)


def statistics_as_json(results: Iterable[FileResult]) -> str:
    rows = [{"code": code, "name": name, "count": count} for count, code, name in statistics(results)]
    return json.dumps(rows, indent=2)


def _finding(finding: Finding, path: str) -> dict[str, object]:
    return {
        "cell": None,
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.label,
        "message": finding.message,
        "filename": path if path == "-" else os.path.abspath(path),
        "location": _position(finding.span.start),
        "end_location": _position(finding.span.end),
        "noqa_row": finding.span.start.row,
        "url": None,
        "fix": None
        if finding.fix is None
        else {
            "applicability": finding.fix.safety.value,
            "message": finding.fix.message,
            "edits": [_edit(edit) for edit in finding.fix.edits],
        },
        "related": [
            {
                "message": related.message,
                "location": _position(related.span.start),
                "end_location": _position(related.span.end),
            }
            for related in finding.related
        ],
    }


def _position(position: Position) -> dict[str, int]:
    return {"row": position.row, "column": position.column}


def _edit(edit: Edit) -> dict[str, object]:
    return {
        "content": edit.content,
        "location": _position(edit.span.start),
        "end_location": _position(edit.span.end),
    }
