"""Writes the comments that silence findings: behind the line, among codes that stand there already, with a reason."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gradlint.documents import Kind, kind_of, markdown
from gradlint.documents.escapes import hide
from gradlint.documents.notebook import NotANotebook, read
from gradlint.model import SYNTAX_ERROR, UNKNOWN_SUPPRESSION, UNUSED_SUPPRESSION, Edit, FileResult, Position, Span
from gradlint.python.source import decoded, lines_of
from gradlint.repair.edits import applied
from gradlint.repair.rounds import edited

_OWN = re.compile(r"#\s*gradlint:\s*ignore(?![\w-])\s*\[(?P<codes>[^\]\n]*)\]", re.IGNORECASE)
#: what no comment can silence, or none should: the comment that is complained of is to be mended
_TOLD_ALWAYS = frozenset({SYNTAX_ERROR, UNUSED_SUPPRESSION, UNKNOWN_SUPPRESSION})


class Wish(NamedTuple):
    """A rule to be silenced on one of these rows."""

    code: str
    first: int
    last: int


class Ignored(NamedTuple):
    """A file with the comments in it: how many findings they silence, and those for which there is no place."""

    source: bytes
    silenced: int
    left: tuple[Wish, ...]


def ignoring(text: str, code: str, span: Span) -> Edit | None:
    """The edit that silences a rule on the lines of a finding; None where no comment can be put."""
    edits, _ = _comments(text, [_wish(code, span)], "")
    return edits[0] if edits else None


def ignored(source: bytes, result: FileResult, reason: str = "") -> Ignored:
    """The file with a comment for each of its findings."""
    wishes = [_wish(finding.code, finding.span) for finding in result.findings if finding.code not in _TOLD_ALWAYS]
    kind = kind_of(result.path)
    if kind is Kind.NOTEBOOK:
        return _in_cells(source, result, wishes, reason)
    if kind is Kind.MARKDOWN:
        return _in_blocks(source, wishes, reason)
    edits, left = _comments(decoded(source), wishes, reason)
    return Ignored(edited(source, edits), len(wishes) - len(left), tuple(left))


def _wish(code: str, span: Span) -> Wish:
    return Wish(code, span.rows[0], span.rows[-1])


def _in_cells(source: bytes, result: FileResult, wishes: Sequence[Wish], reason: str) -> Ignored:
    notebook = read(source)
    if isinstance(notebook, NotANotebook):
        return Ignored(source, 0, tuple(wishes))
    texts: dict[int, str] = {}
    left: list[Wish] = []
    for cell in result.cells:
        text = notebook.sources[cell.number].text
        edits, missed = _inside(text, cell.first_row, cell.rows, wishes, reason)
        left += missed
        if edits:
            texts[cell.number] = applied(text, edits)
    return Ignored(notebook.with_sources(texts), len(wishes) - len(left), tuple(left))


def _in_blocks(source: bytes, wishes: Sequence[Wish], reason: str) -> Ignored:
    edits: list[Edit] = []
    left: list[Wish] = []
    for block in markdown.blocks(source.decode("utf-8-sig")):
        made, missed = _inside(block.text, block.first_row, len(block.lines), wishes, reason)
        edits += [block.edit(edit) for edit in made]
        left += missed
    return Ignored(markdown.edited(source, edits), len(wishes) - len(left), tuple(left))


def _inside(
    text: str, first: int, rows: int, wishes: Sequence[Wish], reason: str
) -> tuple[list[Edit], list[Wish]]:  # fmt: skip
    """The same for a part of the file, whose edits are in rows of its own."""
    own = [wish for wish in wishes if first <= wish.first < first + rows]
    moved = [Wish(w.code, w.first - first + 1, w.last - first + 1) for w in own]
    edits, missed = _comments(text, moved, reason)
    return edits, [own[moved.index(wish)] for wish in missed]


def _comments(text: str, wishes: Sequence[Wish], reason: str) -> tuple[list[Edit], list[Wish]]:
    """One edit for each line that gets codes, and the wishes for which there is no line."""
    lines = lines_of(text)
    own: dict[int, re.Match[str]] = {}
    ends: set[int] = set()
    for row, column in _line_ends(text) if wishes else ():
        if column is None:
            ends.add(row)
        elif found := _OWN.search(lines[row - 1], column):
            own[row] = found
    codes: dict[int, list[str]] = {}
    left: list[Wish] = []
    for wish in wishes:
        rows = range(wish.first, wish.last + 1)
        places = [*(row for row in rows if row in own), *(row for row in rows if row in ends)]
        if places:
            codes.setdefault(places[0], []).append(wish.code)
        else:
            left.append(wish)
    edits = [
        _joined(row, own[row], _once(named)) if row in own else _appended(row, lines[row - 1], _once(named), reason)
        for row, named in sorted(codes.items())
    ]
    return edits, left


def _once(codes: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(codes))


def _joined(row: int, comment: re.Match[str], codes: str) -> Edit:
    """The codes among those that the comment names already."""
    start, end = comment.span("codes")
    named = comment["codes"].strip(" \t,")
    content = f"{named}, {codes}" if named else codes
    return Edit(Span(Position(row, start + 1), Position(row, end + 1)), content)


def _appended(row: int, line: str, codes: str, reason: str) -> Edit:
    body = line.rstrip("\r\n")
    code_and_comment = body.rstrip()
    span = Span(Position(row, len(code_and_comment) + 1), Position(row, len(body) + 1))
    return Edit(span, f"  # gradlint: ignore[{codes}] {' '.join(reason.split())}".rstrip())


def _line_ends(text: str) -> Iterator[tuple[int, int | None]]:
    """The rows that end outside of any string and without a backslash; before that, where a comment begins on one."""
    hidden = hide(text)
    if hidden is None:
        return
    feed = iter(lines_of(hidden.text))
    try:
        for token in tokenize.generate_tokens(lambda: next(feed, "")):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.start[1]
            elif token.type in (tokenize.NEWLINE, tokenize.NL):
                yield token.start[0], None
    except (tokenize.TokenError, SyntaxError, ValueError):
        return
