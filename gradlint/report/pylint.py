"""Findings as pylint prints them with `--output-format=parseable`, which many CI systems can read."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.model import harmless
from gradlint.report.document import Report


def as_pylint(report: Report) -> Iterator[str]:
    """`train.py:10: [GL101] message`"""
    for document, finding in report.findings():
        place = document.result.place(finding.span.start)
        row = document.file_row(finding.span.start)
        yield f"{harmless(document.path)}:{row}: [{finding.code}] {place.in_cell}{harmless(finding.message)}"
