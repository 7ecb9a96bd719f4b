"""Where a comment goes that silences a finding on its line."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator

from gradlint.comments import lines_of
from gradlint.documents.escapes import hide
from gradlint.model import Edit, Position, Span

_OWN = re.compile(r"#\s*gradlint:\s*ignore(?![\w-])\s*\[(?P<codes>[^\]\n]*)\]", re.IGNORECASE)


def ignoring(text: str, code: str, span: Span) -> Edit | None:
    """The edit that silences a rule on the lines of a finding; None where no comment can be put."""
    first, last = span.start.row, span.end.row - (span.end.column == 1 and span.end.row > span.start.row)
    lines = lines_of(text)
    comments: dict[int, int] = {}
    ends: list[int] = []
    for row, column in _line_ends(text):
        if first <= row <= last:
            if column is None:
                ends.append(row)
            else:
                comments[row] = column
    for row, column in comments.items():
        line = lines[row - 1]
        found = _OWN.search(line, column)
        if found is not None:
            return _joined(row, found, code)
    return _appended(ends[0], lines[ends[0] - 1], code) if ends else None


def _joined(row: int, comment: re.Match[str], code: str) -> Edit:
    """The code among those that the comment names already."""
    start, end = comment.span("codes")
    named = comment["codes"].strip(" \t,")
    content = f"{named}, {code}" if named else code
    return Edit(Span(Position(row, start + 1), Position(row, end + 1)), content)


def _appended(row: int, line: str, code: str) -> Edit:
    body = line.rstrip("\r\n")
    code_and_comment = body.rstrip()
    span = Span(Position(row, len(code_and_comment) + 1), Position(row, len(body) + 1))
    return Edit(span, f"  # gradlint: ignore[{code}]")


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
