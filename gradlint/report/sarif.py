"""Findings as SARIF 2.1.0, as code scanning wants them: stories as related locations, fixes as replacements.

GitHub knows an alert again by `primaryLocationLineHash`, which its upload action computes: it is left to that, and our
own fingerprint stands beside it. The line of a finding in a notebook is that of the file's JSON, so that it can be
shown; the cell is told in the message and as a logical location. Fixes of notebooks are left out: they are in rows of
cells, for which SARIF has no words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from gradlint import __version__
from gradlint.docs.pages import page, sections
from gradlint.fingerprints import Print
from gradlint.model import FileResult, Finding, Fix, Related, Severity, Span
from gradlint.registry import HOME, by_code, rule_url
from gradlint.report.document import Document, Json, Report
from gradlint.report.paths import encoded, file_uri, is_absolute, relative, root_folder, writable
from gradlint.report.text import help_text
from gradlint.rule import Rule

LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}
_PROBLEMS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "recommendation"}

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "gradlint/v1"
_ROOT = "%SRCROOT%"
#: what a reader of SARIF would take for a link
_LINK = re.compile(r"\[(?=[^\[\]]*\]\()")


def descriptors(codes: Sequence[str], severities: Mapping[str, Severity]) -> list[Json]:
    """Those that fired, in this order: the pages of all would make every log a megabyte's fraction longer."""
    rules = by_code()
    return [_descriptor(rules[code], severities[code]) for code in codes]


def _descriptor(rule: type[Rule], severity: Severity) -> Json:
    code, parts = rule.meta.code, sections(rule)
    why = f"{parts['What it does']}\n\n{parts['Why is this bad?']}"
    return {
        "id": code,
        "name": rule.__name__,
        "shortDescription": {"text": rule.summary()},
        "fullDescription": {"text": f"{rule.summary()} {_one_line(parts['What it does'])}"},
        "help": {"text": f"{rule.summary()}\n\n{why}\n\n{rule_url(code)}", "markdown": page(rule)},
        "helpUri": rule_url(code),
        "defaultConfiguration": {"level": LEVELS[rule.meta.severity]},
        "properties": {
            "tags": ["pytorch", "gradients", rule.meta.category.value.lower()],
            "problem.severity": _PROBLEMS[severity],
            # rules that are off by default are so because they need a second look
            "precision": "high" if rule.meta.default else "medium",
        },
    }


def _one_line(text: str) -> str:
    return " ".join(text.split())


def as_sarif(report: Report) -> Iterator[str]:
    """One log with one run; clean code has a run without results."""
    root = root_folder("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
    documents = list(report.documents())
    codes = sorted({finding.code for document in documents for finding in document.result.findings})
    results = [result for document in documents for result in _File(document, root).results(codes)]
    run: Json = {
        "tool": {"driver": _driver(descriptors(codes, _severities(documents)))},
        "invocations": [_invocation(report, root)],
        # no address: where the repository lies on this machine is nobody else's matter
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the repository."}}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    yield json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _driver(rules: list[Json]) -> Json:
    return {
        "name": "gradlint",
        "version": __version__,
        "semanticVersion": __version__,
        "informationUri": HOME,
        "rules": rules,
    }


def _severities(documents: Sequence[Document]) -> dict[str, Severity]:
    """What a code counts as in this run: its most severe finding."""
    found: dict[str, Severity] = {}
    for document in documents:
        for finding in document.result.findings:
            found[finding.code] = max(finding.severity, found.get(finding.code, finding.severity))
    return found


class _File:
    """The results of one file."""

    def __init__(self, document: Document, root: str) -> None:
        self._document = document
        self._notebook = bool(document.result.cells)
        self._root = root
        self._artifact = _artifact(document.path, root)

    def results(self, codes: Sequence[str]) -> Iterator[Json]:
        for finding, made in self._document.fingerprinted():
            yield self._result(finding, made, codes.index(finding.code))

    def _result(self, finding: Finding, made: Print, index: int) -> Json:
        result: Json = {
            "ruleId": finding.code,
            "ruleIndex": index,
            "level": LEVELS[finding.severity],
            "message": {"text": self._message(finding)},
            "locations": [{**self._location(finding.span), **self._logical(finding.span, made.function)}],
            "partialFingerprints": {FINGERPRINT: made.value},
            "properties": {"grade": finding.grade.value},
        }
        if finding.related:
            result["relatedLocations"] = [
                {"id": number, **self._related(related), "message": {"text": related.message}}
                for number, related in enumerate(finding.related, start=1)
            ]
        if finding.fix is not None and not self._notebook:
            result["fixes"] = [self._fix(finding, finding.fix)]
        return result

    def _message(self, finding: Finding) -> str:
        """The story is linked from the text, or nobody would come upon it."""
        place = self._document.result.place(finding.span.start)
        told = [f"{place.in_cell.capitalize()}{_plain(finding.message)}"]
        for number, (where, said) in enumerate(self._document.story(finding, self._root), start=1):
            told.append(f"[{_plain(where)}]({number}): {_plain(said)}")
        return ". ".join((told[0], "; ".join(told[1:]))) if len(told) > 1 else told[0]

    def _related(self, related: Related) -> Json:
        if not related.path:
            return self._location(related.span)
        artifact = _artifact(related.path, self._root)
        return {"physicalLocation": {"artifactLocation": artifact, "region": _rows_and_columns(related.span)}}

    def _location(self, span: Span) -> Json:
        return {"physicalLocation": {"artifactLocation": self._artifact, "region": self._region(span)}}

    def _region(self, span: Span) -> Json:
        if self._notebook:
            return {"startLine": self._document.file_row(span.start)}
        return _rows_and_columns(span)

    def _logical(self, span: Span, function: str) -> Json:
        cell = self._document.result.place(span.start).cell
        named: list[Json] = [] if cell is None else [{"name": f"cell {cell}", "kind": "module"}]
        if function:
            named.append({"fullyQualifiedName": function, "name": function.rpartition(".")[2]})
        return {"logicalLocations": named} if named else {}

    def _fix(self, finding: Finding, fix: Fix) -> Json:
        replacements = [
            {"deletedRegion": self._region(edit.span), "insertedContent": {"text": edit.content}} for edit in fix.edits
        ]
        return {
            "description": {"text": help_text(finding)},
            "artifactChanges": [{"artifactLocation": self._artifact, "replacements": replacements}],
            "properties": {"applicability": fix.safety.value},
        }


def _artifact(path: str, root: str) -> Json:
    name = relative(path, root)
    if is_absolute(name):
        return {"uri": file_uri(path)}
    return {"uri": encoded(name), "uriBaseId": _ROOT}


def _plain(text: str) -> str:
    return _LINK.sub(r"\\[", text)


def _invocation(report: Report, root: str) -> Json:
    """What was not read or followed, and rules that crashed: else a report with less in it would look like praise."""
    told = [notification for result in report.results for notification in _notifications(result, root)]
    successful = not any(result.crashes for result in report.results)
    return {"executionSuccessful": successful, **({"toolExecutionNotifications": told} if told else {})}


def _notifications(result: FileResult, root: str) -> Iterator[Json]:
    where = [{"physicalLocation": {"artifactLocation": _artifact(result.path, root)}}]
    if result.unreadable is not None:
        said = f"{writable(result.path)} was not checked: {result.unreadable.reason}"
        yield {"level": "warning", "message": {"text": said}, "locations": where}
    for crash in result.crashes:
        said = f"Rule {crash.rule} failed on {writable(result.path)}: {crash.error}"
        yield {"level": "error", "message": {"text": said}, "locations": where}
    for what in result.exhausted:
        yield {"level": "note", "message": {"text": f"{writable(result.path)}: {what}"}, "locations": where}


def _rows_and_columns(span: Span) -> Json:
    return {
        "startLine": span.start.row,
        "startColumn": span.start.column,
        "endLine": span.end.row,
        "endColumn": span.end.column,
    }
