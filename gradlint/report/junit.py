"""Findings as JUnit's XML: a suite for each file, a failed case for each finding."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from gradlint.model import FileResult, Finding
from gradlint.report.document import Report
from gradlint.report.paths import writable
from gradlint.report.text import help_text
from gradlint.runner.files import shown_path

#: what XML 1.0 cannot hold, not even escaped
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PACKAGE = "org.gradlint"


def as_junit(report: Report) -> Iterator[str]:
    """One passed case if all is well; a file that could not be checked is an error."""
    troubled = report.troubled
    failed = [result for result in report.results if result.findings or result in troubled]
    cases = sum(len(result.findings) for result in failed)
    errors = sum(map(_errors, failed))
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<testsuites name="gradlint" tests="{cases + errors or 1}" failures="{cases}" errors="{errors}">'
    for result in failed:
        yield from _suite(result)
    if not failed:
        yield f'  <testsuite name="gradlint" tests="1" failures="0" errors="0" package="{_PACKAGE}">'
        yield '    <testcase name="No errors found" classname="gradlint"/>'
        yield "  </testsuite>"
    yield "</testsuites>"


def _errors(result: FileResult) -> int:
    return len(result.crashes) + (result.unreadable is not None)


def _suite(result: FileResult) -> Iterator[str]:
    cases, errors = len(result.findings), _errors(result)
    counts = f'tests="{cases + errors}" failures="{cases}" errors="{errors}"'
    yield f'  <testsuite name={_attribute(writable(result.path))} {counts} package="{_PACKAGE}">'
    module = _attribute(writable(os.path.splitext(result.path)[0]))
    for finding in result.ordered():
        yield from _failure(finding, result, module)
    if result.unreadable is not None:
        yield from _error("unreadable", result.unreadable.reason, module)
    for crash in result.crashes:
        yield from _error(f"{crash.rule}.crash", f"internal error in rule {crash.rule}: {crash.error}", module)
    yield "  </testsuite>"


def _failure(finding: Finding, result: FileResult, module: str) -> Iterator[str]:
    place = result.place(finding.span.start)
    told = [f"{place.said}, col {place.column}, {finding.severity.label}: {finding.message}"]
    for related in finding.related:
        there = result.beside(related.path).place(related.span.start)
        other = f"{writable(shown_path(related.path))}, " if related.path else ""
        told.append(f"{other}{there.said}, col {there.column}: {related.message}")
    if said := help_text(finding):
        told.append(f"help: {said}")
    name = _attribute(f"{_PACKAGE}.{finding.code}")
    yield f'    <testcase name={name} classname={module} line="{place.row}" column="{place.column}">'
    yield f"      <failure message={_attribute(finding.message)} type={_attribute(finding.name)}>"
    yield f"{_text(chr(10).join(told))}</failure>"
    yield "    </testcase>"


def _error(name: str, message: str, module: str) -> Iterator[str]:
    yield f"    <testcase name={_attribute(f'{_PACKAGE}.{name}')} classname={module}>"
    yield f"      <error message={_attribute(message)}/>"
    yield "    </testcase>"


def _text(text: str) -> str:
    return escape(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text))


def _attribute(text: str) -> str:
    return quoteattr(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text))
