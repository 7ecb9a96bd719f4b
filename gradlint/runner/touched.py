"""Which findings a change is answerable for: those on its lines, and those that it brought about elsewhere."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from gradlint import documents
from gradlint.fingerprints import fingerprints
from gradlint.model import SYNTAX_ERROR, FileResult, Finding, Span
from gradlint.records import replace
from gradlint.runner.changes import Change, Changes
from gradlint.runner.files import SourceFile

_ENDS = re.compile(r"\r\n|\r|\n")


class _Before(NamedTuple):
    """A file as it was: its findings by rule, function and line, and the cells of a notebook."""

    findings: Counter[tuple[str, str, str]]
    cells: Counter[str]


class Touched:
    """One changed file: its findings count if their lines or those of their story changed, or if they are new.

    A finding on lines that stayed is new if the file had no such finding before: a line that is gone, or one far away,
    has made it wrong.
    """

    def __init__(self, file: SourceFile, text: str, changes: Changes) -> None:
        self._change = changes.of(file.path) or Change(frozenset())
        self._file = file
        self._text = text
        self._changes = changes

    def keep(self, result: FileResult, text: str) -> FileResult:
        """The findings that count; `text` may be the original with fixes applied."""
        if self._change.rows is None or not result.findings:
            return result
        touches = self._cells(result, text) if result.cells else self._rows(text)
        ordered = _ordered(result)
        counting = [finding.code == SYNTAX_ERROR or _told_on(finding, touches) for finding in ordered]
        if not all(counting):
            keys = [
                (f.code, one.function, one.line) for f, one in zip(ordered, fingerprints(result, text), strict=True)
            ]
            aside = [place for place, counts in enumerate(counting) if not counts]
            for place in self._new(aside, keys, text):
                counting[place] = True
        left = [finding for finding, counts in zip(ordered, counting, strict=True) if counts]
        return result if len(left) == len(ordered) else replace(result, findings=tuple(left))

    def _new(self, places: list[int], keys: list[tuple[str, str, str]], text: str) -> list[int]:
        """Those of the findings that the file did not have; a function may have got another name meanwhile."""
        known = Counter(self._before.findings)
        strange = []
        for place in places:
            if known[keys[place]] <= 0:
                strange.append(place)
            known[keys[place]] -= 1
        renamed: Counter[tuple[str, str]] = Counter()
        for (code, function, line), count in known.items():
            if count > 0 and not _defines(text, function):
                renamed[code, line] += count
        new = []
        for place in strange:
            code, _, line = keys[place]
            if renamed[code, line] <= 0:
                new.append(place)
            renamed[code, line] -= 1
        return new

    def _rows(self, text: str) -> Callable[[Span], bool]:
        change = self._change if text == self._text else Change(self._rows_after_fixes(text))
        return lambda span: change.touches(span.start.row, span.end.row)

    def _rows_after_fixes(self, text: str) -> frozenset[int]:
        """The changed rows where they are now, and the rows that the fixes wrote."""
        from difflib import SequenceMatcher

        old, new = _ENDS.split(self._text), _ENDS.split(text)
        rows = set(range(1, len(new) + 1))
        for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
            for offset in range(block.size):
                if not self._change.touches(block.a + offset + 1, block.a + offset + 1):
                    rows.discard(block.b + offset + 1)
        return frozenset(rows)

    def _cells(self, result: FileResult, text: str) -> Callable[[Span], bool]:
        """The lines of a notebook's file mean little: a cell is touched if its text was in no cell before."""
        known = Counter(self._before.cells)
        touched: set[int | None] = set()
        for cell, source in zip(result.cells, _cell_texts(result, text), strict=True):
            if known[source] <= 0:
                touched.add(cell.number)
            known[source] -= 1
        return lambda span: not touched.isdisjoint((result.place(span.start).cell, result.place(span.end).cell))

    @functools.cached_property
    def _before(self) -> _Before:
        source = self._changes.before(self._file.path)
        if source is None:
            return _Before(Counter(), Counter())
        result = documents.lint(source, self._file.shown, self._file.settings)
        text = documents.program_text(source, self._file.shown)
        pairs = zip(_ordered(result), fingerprints(result, text), strict=True)
        return _Before(
            Counter((finding.code, one.function, one.line) for finding, one in pairs),
            Counter(_cell_texts(result, text)),
        )


def _ordered(result: FileResult) -> list[Finding]:
    """In the order of the fingerprints."""
    return sorted(result.findings, key=lambda finding: (finding.span.start, finding.code, finding.message))


def _defines(text: str, function: str) -> bool:
    """Whether the program still has a function, or class, of this name; its own level it always has."""
    name = re.escape(function.rpartition(".")[2])
    return not name or re.search(rf"\b(?:def|class)\s+{name}\b", text) is not None


def _cell_texts(result: FileResult, text: str) -> list[str]:
    lines = _ENDS.split(text)
    return ["\n".join(lines[cell.first_row - 1 : cell.first_row - 1 + cell.rows]) for cell in result.cells]


def _told_on(finding: Finding, touches: Callable[[Span], bool]) -> bool:
    return touches(finding.span) or any(touches(related.span) for related in finding.related)
