"""Findings as a comment on a pull request: by file, with links to the rules and the story folded away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gradlint.model import Finding, Position, Severity, counted
from gradlint.registry import rule_url
from gradlint.report.document import Document, Report
from gradlint.report.paths import named, root_folder, writable
from gradlint.report.text import Paint, help_text, summary
from gradlint.runner.files import shown_path

#: GitHub refuses comments of more than 65,536 characters; what stands above and below ours needs room as well
LONGEST = 60_000
#: what means something in the middle of a line; `$` is mathematics on GitHub, and `@` calls somebody
_SPECIAL = re.compile(r"[\\`*_\[\]<>#|~&$@]")


def as_markdown(report: Report) -> Iterator[str]:
    """One line if all is well."""
    told = summary(report.results, report.checked, Paint(False), asides=report.asides)
    yield f"**gradlint**: {escaped(told)}{_unchecked(report)}"
    root = root_folder("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
    entries = [
        _Entry(f"\n#### {code(named(document.path, root))}\n", finding.severity, _finding(finding, document))
        for document, finding in report.findings()
    ]
    shown = _that_fit(entries)
    head = ""
    for entry in shown:
        if entry.head != head:
            yield (head := entry.head)
        yield entry.text
    if len(shown) < len(entries):
        yield f"\n… and {len(entries) - len(shown)} more; the output of `gradlint check` has them all."


class _Entry(NamedTuple):
    head: str
    severity: Severity
    text: str


def _that_fit(entries: list[_Entry]) -> list[_Entry]:
    """The most severe first, each where it stands."""
    room = LONGEST
    chosen = set()
    for number in sorted(range(len(entries)), key=lambda number: (-entries[number].severity, number)):
        room -= len(entries[number].head) + len(entries[number].text)
        if room < 0:
            break
        chosen.add(number)
    return [entry for number, entry in enumerate(entries) if number in chosen]


def _unchecked(report: Report) -> str:
    files = len(report.troubled)
    if not files:
        return ""
    return f". {counted(files, 'file')} could not be checked; the log of the run says why."


def _finding(finding: Finding, document: Document) -> str:
    where = _where(document, finding.span.start)
    rule = f"[{finding.code} {finding.name}]({rule_url(finding.code)})"
    fix = help_text(finding)
    told = f"{escaped(finding.message)}{'' if fix is None else f'. *Fix: {escaped(fix)}*'}"
    lines = [f"- **{finding.severity.label}** {where}: {rule}: {told}"]
    if finding.related:
        story = (f"  {line}" for line in _story(finding, document))
        lines += ["", "  <details><summary>the story</summary>", "", *story, "", "  </details>", ""]
    return "\n".join(lines)


def _story(finding: Finding, document: Document) -> Iterator[str]:
    """The lines of code in the order of the file, with what happened at each."""
    here = [(said.span.start, said.message) for said in finding.related if not said.path]
    for position, said in sorted([(finding.span.start, ""), *here], key=lambda place: place[0]):
        line = document.line(position).strip()
        told = escaped(said) if said else "**here**"
        yield f"- {_where(document, position)}: {f'{code(line)} ' if line else ''}{told}"
    for line_elsewhere in (said for said in finding.related if said.path):
        where = code(writable(shown_path(line_elsewhere.path)))
        yield f"- {where}, line {line_elsewhere.span.start.row}: {escaped(line_elsewhere.message)}"


def _where(document: Document, position: Position) -> str:
    return document.result.place(position).said


def escaped(text: str) -> str:
    """Text that means itself, but for its code between backticks; on one line."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:  # a backtick without its fellow
        return _SPECIAL.sub(_entity, "`".join(parts))
    return "".join(code(part) if odd % 2 else _SPECIAL.sub(_entity, part) for odd, part in enumerate(parts))


def _entity(found: re.Match[str]) -> str:
    return f"&#{ord(found.group())};" if found.group() in "<>&@`|" else f"\\{found.group()}"


def code(text: str) -> str:
    """A code span: its fence is longer than any row of backticks in it."""
    shown = " ".join(text.split())
    if not shown:
        return ""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"
