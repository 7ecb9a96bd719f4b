"""The `full` and `concise` formats, and the line that sums a run up."""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, NamedTuple

from gradlint.documents import program_text
from gradlint.model import (
    FileResult,
    Finding,
    FixSafety,
    Place,
    Position,
    Severity,
    Span,
    counted,
    harmless,
    split_lines,
)
from gradlint.runner.files import shown_path

if TYPE_CHECKING:
    from gradlint.runner.write import FixedFile

_CODES = {
    "error": "1;31",
    "warning": "1;33",
    "advice": "1;36",
    "code": "1",
    "name": "2",
    "gutter": "34",
    "story": "36",
    "path": "1",
    "good": "1;32",
    "fix": "1;36",
    "added": "32",
    "removed": "31",
    "plain": "",
}

_TAB = "    "
_WIDEST = 140
_PLAIN_FILE = FileResult("")
ReadSource = Callable[[str], bytes | None]


class Paint:
    """Wraps text in the escape codes of its role when colours are on."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def __call__(self, text: str, role: str) -> str:
        code = _CODES[role]
        return f"\x1b[{code}m{text}\x1b[0m" if self.enabled and text and code else text

    def severity(self, text: str, severity: Severity) -> str:
        return self(text, severity.label)


def wants_colour(stream: IO[str], environment: Mapping[str, str] | None = None) -> bool:
    """Colours for terminals only; NO_COLOR turns them off and FORCE_COLOR on, as https://no-color.org asks."""
    given = os.environ if environment is None else environment
    if given.get("NO_COLOR"):
        return False
    if given.get("FORCE_COLOR", "0") not in ("", "0", "false"):
        return True
    return stream.isatty() and given.get("TERM") != "dumb"


def help_text(finding: Finding) -> str | None:
    """What the fix of a finding would do."""
    if finding.fix is None:
        return None
    return f"{finding.fix.message}{' (unsafe)' if finding.fix.safety is FixSafety.UNSAFE else ''}"


def mark(finding: Finding, unsafe: bool | None, paint: Paint) -> str:
    """`[*] ` before a finding that `--fix` would mend; `unsafe` is None where that was done already."""
    if unsafe is None or not finding.fixable(unsafe=unsafe):
        return ""
    return f"{paint('[*]', 'fix')} "


def hint(results: Iterable[FileResult], unsafe: bool, paint: Paint) -> str | None:
    """`[*] 3 fixable with the --fix option (1 more with --unsafe-fixes)`"""
    findings = [finding for result in results for finding in result.findings]
    now = sum(finding.fixable(unsafe=unsafe) for finding in findings)
    more = sum(finding.fixable(unsafe=True) for finding in findings) - now
    if now:
        rest = f" ({more} more with --unsafe-fixes)" if more else ""
        return f"{paint('[*]', 'fix')} {now} fixable with the --fix option{rest}"
    return f"{more} fixable with --fix --unsafe-fixes" if more else None


def hint_after(results: Iterable[FileResult], unsafe: bool) -> str | None:
    """What a run with `--fix` has left that `--unsafe-fixes` would have mended."""
    more = _more(results, unsafe)
    return f"{more} more fixable with --unsafe-fixes" if more else None


def total(files: Sequence[FixedFile], results: Iterable[FileResult], checked: int, unsafe: bool, verb: str) -> str:
    """`Would fix 3 findings in 2 files (1 more with --unsafe-fixes)`"""
    count = sum(len(file.mended) for file in files)
    more = _more(results, unsafe)
    rest = f" ({more} more with --unsafe-fixes)" if more else ""
    if not files:
        return "Nothing to fix" + (rest or f" ({counted(checked, 'file')} checked)")
    return f"{verb} {counted(count, 'finding')} in {counted(len(files), 'file')}{rest}"


def enumeration(files: Sequence[FixedFile], paint: Paint) -> Iterator[str]:
    """How often each rule was fixed, file by file."""
    if not files:
        return
    count = sum(len(file.mended) for file in files)
    yield paint(f"Fixed {counted(count, 'finding')}:", "good")
    for file in files:
        yield f"- {paint(harmless(file.path), 'path')}:"
        counts = Counter((finding.code, finding.name) for finding in file.mended)
        width = len(str(max(counts.values(), default=0)))
        for (code, name), times in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            yield f"    {times:>{width}} × {paint(code, 'code')} ({name})"
    yield ""


def _more(results: Iterable[FileResult], unsafe: bool) -> int:
    findings = (finding for result in results for finding in result.findings)
    return sum(finding.fixable(unsafe=True) and not finding.fixable(unsafe=unsafe) for finding in findings)


class Mark(NamedTuple):
    """One underlined place, with what happened there."""

    span: Span
    sign: str
    text: str


def frame(finding: Finding, lines: Sequence[str], paint: Paint, result: FileResult = _PLAIN_FILE) -> Iterator[str]:
    """The lines of the code frame, in the order of the file; nothing if the file has changed meanwhile."""
    marks = [Mark(finding.span, "^", "")]
    here = [related for related in finding.related if not related.path]
    marks += [Mark(related.span, "-", harmless(related.message)) for related in here]
    marks = [mark for mark in marks if 1 <= mark.span.start.row <= len(lines)]
    if not marks:
        return
    places = {row: result.place(Position(row, 1)) for row in range(1, len(lines) + 1)} if result.cells else {}
    rows = _rows_to_show(finding, marks, lines, places)
    gutter = max(len(str(_shown(row, places))) for row in rows)
    bar = paint(f"{' ' * gutter} |", "gutter")
    yield bar
    previous = rows[0] - 1
    cell = _cell(finding.span.start.row, places)  # the one that is named above the frame
    for row in rows:
        if _cell(row, places) != cell:
            cell = _cell(row, places)
            yield paint(f"{' ' * gutter} ::: cell {cell}", "gutter")
        elif row > previous + 1:
            yield paint("...", "gutter")
        at_row = [mark for mark in marks if mark.span.start.row == row]
        yield from _row(_shown(row, places), lines[row - 1], at_row, gutter, paint)
        previous = row
    yield bar
    for related in finding.related:
        if related.path:
            start = related.span.start
            where = f"{' ' * gutter} ::: {harmless(shown_path(related.path))}:{start.row}:{start.column}:"
            yield f"{paint(where, 'gutter')} {harmless(related.message)}"
    if said := help_text(finding):
        equals = paint(f"{' ' * gutter} =", "gutter")
        yield f"{equals} {paint('help', 'story')}: {harmless(said)}"


def _shown(row: int, places: dict[int, Place]) -> int:
    """The number of a row: in a notebook, that of the cell."""
    return places[row].row if row in places else row


def _cell(row: int, places: dict[int, Place]) -> int | None:
    return places[row].cell if row in places else None


def _rows_to_show(
    finding: Finding, marks: Sequence[Mark], lines: Sequence[str], places: dict[int, Place]
) -> list[int]:  # fmt: skip
    """Marked rows, one row of context round the finding, and single rows that `...` would not shorten."""
    rows = {mark.span.start.row for mark in marks}
    at = finding.span.start.row
    near = (row for row in (at - 1, at + 1) if _cell(row, places) == _cell(at, places))
    rows |= {row for row in near if 1 <= row <= len(lines) and lines[row - 1].strip()}
    rows |= {row for row in range(min(rows), max(rows)) if row - 1 in rows and row + 1 in rows}
    return sorted(rows)


def _row(row: int, line: str, marks: Sequence[Mark], gutter: int, paint: Paint) -> Iterator[str]:
    shown = _Line(line, min((mark.span.start.column for mark in marks), default=1))
    number = paint(f"{row:>{gutter}} |", "gutter")
    yield f"{number} {shown.text}".rstrip()
    blank = paint(f"{' ' * gutter} |", "gutter")
    for mark in sorted(marks, key=lambda mark: (mark.sign != "^", mark.span.start.column)):
        end = mark.span.end.column if mark.span.end.row == mark.span.start.row else len(line.rstrip()) + 1
        start, width = shown.place(mark.span.start.column, end)
        role = "error" if mark.sign == "^" else "story"
        text = f"{mark.sign * width} {mark.text}".rstrip()
        yield f"{blank} {' ' * start}{paint(text, role)}"


class _Line:
    """A source line made fit for a terminal, and where its characters ended up."""

    def __init__(self, line: str, around: int) -> None:
        pieces = [visible(char) for char in line]
        offsets = [0]
        for piece in pieces:
            offsets.append(offsets[-1] + _width(piece))
        first, last = 0, len(pieces)
        self._shift = 0
        lead, tail = "", ""
        if offsets[-1] > _WIDEST:  # minified or generated: show the part that matters
            first = max(0, min(around - 1, len(pieces)) - 40) if offsets[min(around, len(pieces))] > _WIDEST - 40 else 0
            last = first
            while last < len(pieces) and offsets[last + 1] - offsets[first] <= _WIDEST:
                last += 1
            lead, tail = ("…" if first else ""), ("…" if last < len(pieces) else "")
            self._shift = len(lead) - offsets[first]
        self._offsets = offsets
        self._limit = offsets[last] + self._shift
        self.text = lead + "".join(pieces[first:last]) + tail

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where a range of columns is drawn, and how wide; never less than one sign."""
        left = self._offset(start)
        return left, max(1, min(self._offset(end), self._limit) - left)

    def _offset(self, column: int) -> int:
        return self._offsets[min(max(column - 1, 0), len(self._offsets) - 1)] + self._shift


def visible(char: str) -> str:
    """Tabs become spaces, and control characters (an escape code in a comment) a harmless sign."""
    if char == "\t":
        return _TAB
    if char.isprintable() or unicodedata.combining(char):
        return char
    return " " if char.isspace() else "\N{REPLACEMENT CHARACTER}"


def _width(piece: str) -> int:
    if piece.isascii():
        return len(piece)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in piece
    )


def concise(results: Iterable[FileResult], paint: Paint, *, unsafe: bool | None = False) -> Iterator[str]:
    """`path:row:col: GL101 message`, one line each: what editors and grep understand."""
    for result in results:
        for finding in result.ordered():
            where = f"{paint(harmless(result.path), 'path')}:{result.place(finding.span.start)}:"
            code = paint.severity(harmless(finding.code), finding.severity)
            yield f"{where} {code} {mark(finding, unsafe, paint)}{harmless(finding.message)}"


def grouped(results: Iterable[FileResult], paint: Paint, *, unsafe: bool | None = False) -> Iterator[str]:
    """The same file by file: its name once, its findings below."""
    for result in results:
        if not result.findings:
            continue
        yield f"{paint(harmless(result.path), 'path')}:"
        places = [str(result.place(finding.span.start)) for finding in result.ordered()]
        width = max(map(len, places))
        for place, finding in zip(places, result.ordered(), strict=True):
            code = paint.severity(harmless(finding.code), finding.severity)
            yield f"  {place:<{width}} {code} {mark(finding, unsafe, paint)}{harmless(finding.message)}"
        yield ""


def full(
    results: Iterable[FileResult], read: ReadSource, paint: Paint, *, unsafe: bool | None = False
) -> Iterator[str]:
    """Every finding with its code and its story; `unsafe` is as in `mark`."""
    for result in results:
        if not result.findings:
            continue
        source = read(result.path)
        lines = [] if source is None else split_lines(program_text(source, result.path))
        for finding in result.ordered():
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
    count = f"{len(fixed)} fixed, {len(left)} remaining" if fixed else f"{counted(checked, 'file')} checked"
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
        return f"{counted(count, 'piece')} of advice"
    return counted(count, severity.label)


class Count(NamedTuple):
    """How often a rule spoke, how severe that was, and how many of its findings `--fix` would mend."""

    times: int
    code: str
    name: str
    severities: tuple[tuple[Severity, int], ...]
    fixable: int


def statistics(results: Iterable[FileResult], unsafe: bool) -> list[Count]:
    """Rule by rule, most often first."""
    by_rule: dict[tuple[str, str], list[Finding]] = {}
    for result in results:
        for finding in result.findings:
            by_rule.setdefault((finding.code, finding.name), []).append(finding)
    rows = [
        Count(
            len(findings), code, name,
            tuple(sorted(Counter(finding.severity for finding in findings).items(), reverse=True)),
            sum(finding.fixable(unsafe=unsafe) for finding in findings),
        )
        for (code, name), findings in by_rule.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-row.times, row.code))


def statistics_lines(results: Iterable[FileResult], paint: Paint, unsafe: bool) -> Iterator[str]:
    """`3  GL101  error    clip-after-step  [*] 2`"""
    rows = statistics(results, unsafe)
    width = len(str(rows[0].times)) if rows else 0
    labels = [", ".join(severity.label for severity, _ in row.severities) for row in rows]
    widest = max(map(len, labels), default=0)
    for row, label in zip(rows, labels, strict=True):
        severity = paint.severity(label, row.severities[0][0]) + " " * (widest - len(label))
        fixable = f"  {paint('[*]', 'fix')} {row.fixable}" if row.fixable else ""
        yield f"{row.times:>{width}}  {paint(harmless(row.code), 'code')}  {severity}  {harmless(row.name)}{fixable}"
