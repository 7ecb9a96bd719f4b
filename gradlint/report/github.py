"""Findings as workflow commands: GitHub shows them as annotations at their lines."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.model import Finding, Severity
from gradlint.report.document import Document, Report
from gradlint.report.paths import named, root_folder
from gradlint.report.text import help_text

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "notice"}


def as_github(report: Report) -> Iterator[str]:
    """`::error file=train.py,line=10,…,title=gradlint GL101 clip-after-step::GL101 message`, and the story below it"""
    root = root_folder("GITHUB_WORKSPACE")
    for document, finding in report.findings():
        yield _annotation(finding, document, root)


def _annotation(finding: Finding, document: Document, root: str) -> str:
    span, place = finding.span, document.result.place(finding.span.start)
    row = document.file_row(span.start)
    properties: dict[str, object] = {
        "file": named(document.path, root),
        "line": row,
        "endLine": document.file_row(span.end),
    }
    said = f"{place.in_cell}{finding.code} {finding.message}"
    if place.cell is not None:
        properties["endLine"] = row
    elif span.start.row == span.end.row:  # columns of a range over several lines are not allowed
        properties |= {"col": span.start.column, "endColumn": span.end.column}
    properties["title"] = f"gradlint {finding.code} {finding.name}"
    said = "\n".join((said, *_story(finding, document, root)))
    told = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {told}::{_data(said)}"


def _story(finding: Finding, document: Document, root: str) -> Iterator[str]:
    """Where else to look, and what the fix would do; an annotation stands at one place only."""
    yield from (f"  {where}: {said}" for where, said in document.story(finding, root))
    if said := help_text(finding):
        yield f"  help: {said}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
