"""Reads bytes as Python source: encodings, rows, broken files, grammar that is newer than this Python."""

from __future__ import annotations

import ast
import codecs
import io
import re
import tokenize
import warnings
from bisect import bisect_right

from gradlint.model import Unreadable
from gradlint.records import dataclass

_END = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, slots=True)
class Broken:
    """Source that does not parse."""

    message: str
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Newer:
    """Source that libcst understands, but not the Python that runs, even where its newer grammar is blanked."""

    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Source:
    """Source that parses. `masked`: what the tree was made of, if the text has newer grammar than this Python's."""

    data: bytes
    text: str
    tree: ast.Module
    masked: str | None = None

    @classmethod
    def of(cls, text: str) -> Source:
        """A text that is known to parse."""
        found = read(text.encode("utf-8", "surrogatepass"))
        assert isinstance(found, Source)
        return found

    def lines(self) -> Lines:
        """The rows that the tree counts in."""
        return Lines(self.text if self.masked is None else self.masked)


def read(data: bytes) -> Source | Broken | Newer | Unreadable:
    """Decodes and parses; every failure is a value."""
    if b"\0" in data:
        return Unreadable("it is a binary file")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, LookupError, UnicodeDecodeError) as error:
        return Unreadable(f"it cannot be decoded: {error}")
    if data.startswith(codecs.BOM_UTF8):
        text = text.removeprefix("\ufeff")
    try:
        return Source(data, text, parsed(text))
    except SyntaxError as error:
        return _second_opinion(data, text, error)
    except (ValueError, RecursionError, MemoryError) as error:
        return Unreadable(f"it cannot be parsed: {str(error) or 'it is nested too deeply'}")


def part(data: bytes, some: bytes) -> Source | None:
    """Some statements of a source, in their places; None if they do not stand alone."""
    try:
        text = some.decode(encoding_of(data))
        return Source(data, text.removeprefix("\ufeff"), parsed(text.removeprefix("\ufeff")))
    except (SyntaxError, LookupError, ValueError, RecursionError, MemoryError):
        return None


def parsed(text: str) -> ast.Module:
    """Python's own tree, without a word about what it thinks of the text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def decoded(data: bytes) -> str:
    """The text as Python would read it; undecodable bytes are shown as such rather than hidden."""
    return data.decode(encoding_of(data), "replace")


def encoding_of(data: bytes) -> str:
    try:
        return tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except (SyntaxError, LookupError):
        return "utf-8-sig"


def _second_opinion(data: bytes, text: str, error: SyntaxError) -> Source | Broken | Newer | Unreadable:
    """libcst knows grammar that an older Python does not."""
    if "too many nested" in (error.msg or ""):
        return Unreadable("it is nested too deeply")  # libcst would overflow the stack
    from gradlint.python.newer import masked

    known = masked(text)
    if known is None:
        return Broken(f"This file does not parse: {error.msg}", error.lineno or 1, error.offset or 1)
    try:
        return Source(data, text, parsed(known), known)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Newer(error.lineno or 1, error.offset or 1)


def lines_of(text: str) -> list[str]:
    """Lines with their ends; a form feed does not end one."""
    return io.StringIO(text, newline="").readlines()


class Lines:
    """The rows of one text; Python counts columns in bytes, people and libcst in characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(found.end() for found in _END.finditer(text))]
        self._ascii = text.isascii()

    @property
    def count(self) -> int:
        return len(self._starts)

    def start(self, row: int) -> int:
        """Where a row begins; the end of the text for those behind the last."""
        return self._starts[row - 1] if row <= len(self._starts) else len(self.text)

    def row(self, row: int) -> str:
        return self.text[self.start(row) : self.start(row + 1)]

    def offset(self, row: int, column: int) -> int:
        """The character at a column that is counted in bytes."""
        if self._ascii:
            return self.start(row) + column
        line = self.row(row)
        return self.start(row) + (column if line.isascii() else len(line.encode()[:column].decode(errors="replace")))

    def stretch(self, node: ast.expr | ast.stmt | ast.pattern) -> tuple[int, int]:
        """From the first character of a node up to, and without, the one behind it."""
        start = self.offset(node.lineno, node.col_offset)
        if node.end_lineno is None or node.end_col_offset is None:
            return start, start
        return start, self.offset(node.end_lineno, node.end_col_offset)

    def position(self, offset: int) -> tuple[int, int]:
        """Row and column of a character; rows are counted from 1, columns from 0."""
        row = bisect_right(self._starts, offset)
        return row, offset - self._starts[row - 1]
