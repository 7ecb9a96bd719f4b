"""The `full` and `concise` formats, and the line that sums a run up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from gradlint.model import FileResult, Finding, Severity
from gradlint.report.fixes import mark
from gradlint.report.paint import Paint
from gradlint.report.paths import harmless

ReadSource = Callable[[str], bytes | None]


def ordered(result: FileResult) -> list[Finding]:
    """Findings in reading order, whatever order the rules ran in."""
    return sorted(result.findings, key=lambda finding: (finding.span.start, finding.code, finding.message))


def concise(results: Iterable[FileResult], paint: Paint, *, unsafe: bool | None = False) -> Iterator[str]:
    """`path:row:col: GL101 message`, one line each: what editors and grep understand."""
    for result in results:
        for finding in ordered(result):
            where = f"{paint(harmless(result.path), 'path')}:{result.place(finding.span.start)}:"
            code = paint.severity(harmless(finding.code), finding.severity)
            yield f"{where} {code} {mark(finding, unsafe, paint)}{harmless(finding.message)}"


def full(
    results: Iterable[FileResult], read: ReadSource, paint: Paint, *, unsafe: bool | None = False
) -> Iterator[str]:
    """Every finding with its code and its story; `unsafe` is as in `mark`."""
    for result in results:
        if not result.findings:
            continue
        from gradlint.documents import program_text
        from gradlint.report.frame import frame, split_lines  # clean code, the common case, needs no frames

        source = read(result.path)
        lines = [] if source is None else split_lines(program_text(source, result.path))
        for finding in ordered(result):
            yield from _head(finding, result, mark(finding, unsafe, paint), paint)
            yield from frame(finding, lines, paint, result)
            yield ""


def _head(finding: Finding, result: FileResult, marked: str, paint: Paint) -> Iterator[str]:
    severity = finding.severity
    head = f"{paint.severity(harmless(finding.code), severity)} {marked}{paint(harmless(finding.name), 'name')}"
    yield f"{head} {paint.severity(severity.label, severity)}: {paint(harmless(finding.message), 'code')}"
    yield f"{paint('  -->', 'gutter')} {harmless(result.path)}:{result.place(finding.span.start)}"


def summary(
    results: Sequence[FileResult],
    checked: int,
    paint: Paint,
    fixed: Sequence[Finding] = (),
    *,
    asides: Sequence[str] = (),
) -> str:
    """`Found 3 errors, 1 warning (2 files checked)`, or `Found 5 errors (3 fixed, 2 remaining)`"""
    left = [finding for result in results for finding in result.findings]
    counts = Counter(finding.severity for finding in (*left, *fixed))
    count = (
        f"{len(fixed)} fixed, {len(left)} remaining"
        if fixed
        else f"{checked} file{'' if checked == 1 else 's'} checked"
    )
    told = f"({', '.join((count, *asides))})"
    if not counts:
        failed = any(result.crashes for result in results)
        passed = "Not all checks could be made" if failed else paint("All checks passed!", "good")
        return f"{passed} {told}"
    parts = [
        paint.severity(_plural(counts[severity], severity), severity)
        for severity in sorted(Severity, reverse=True)
        if counts[severity]
    ]
    return f"Found {', '.join(parts)} {told}"


def _plural(count: int, severity: Severity) -> str:
    if severity is Severity.ADVICE:
        return f"{count} piece{'' if count == 1 else 's'} of advice"
    return f"{count} {severity.label}{'' if count == 1 else 's'}"


def statistics(results: Iterable[FileResult]) -> list[tuple[int, str, str]]:
    """How often each rule spoke, most often first."""
    counts = Counter((finding.code, finding.name) for result in results for finding in result.findings)
    rows = [(count, code, name) for (code, name), count in counts.items()]
    return sorted(rows, key=lambda row: (-row[0], row[1]))


def statistics_lines(results: Iterable[FileResult], paint: Paint) -> Iterator[str]:
    rows = statistics(results)
    width = len(str(rows[0][0])) if rows else 0
    for count, code, name in rows:
        yield f"{count:>{width}}  {paint(harmless(code), 'code')}  {harmless(name)}"
