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


def parsed(text: str | bytes) -> ast.Module:
    """Python's own tree, without a word about what it thinks of the text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def parses(text: str | bytes) -> bool:
    """Whether Python itself accepts a text."""
    try:
        parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


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


# -- a text that is not finished, or never was code: a course's blanks, prose -----------------------------------------


#: `<YOUR CODE HERE>`, `<your-api-key>` where a value should be; no comparison begins with its sign
_ANGLES = r"(?:^|[=(,\[{:]|\b(?:return|in|if|and|or|not))\s*<\s*(?:[^\W\d_]|\.{3})[^<>]*>"
_YOURS = r"(?i)<your\b[^<>]*>"
_UNDERSCORES = r"(?<![A-Za-z0-9])_{3,}(?![A-Za-z0-9])"
#: a line of nothing but dots, where a block should be
_ELIDED = r"\.{3}\s*(?:#.*)?"
_DOTS = r"\bdef \w+\([^)]*\.\.\.|\w \.{3}(?: |$)|(?:^|\s)\.{3} \w|\u2026"
_MARKS = r"(?i)\?{2,}|\[(?:blank|fill|your|todo)[^\]]*\]"
#: a comment that asks for code, at the place or right above it
_ASKS = (
    r"(?i)#.*(?:your[ _]?(?:code|solution|answer|turn|implementation)|todo|fix_?me|fill (?:in|this|me|the)|implement|"
    r"complete (?:this|the|me)|insert (?:your )?code|(?:code|solution) (?:goes )?here|write (?:your|the) )"
)
_ABOVE = 6
#: four words without anything that only code has
_PROSE = (
    r"\s*(?:[-*•]\s+|\d+[.)]\s+)?"
    r"(?!(?:as|assert|async|await|class|def|del|elif|else|except|exec|for|from|global|if|import|in|is|lambda|match|not|print|"
    r"raise|return|try|while|with|yield)\b)"
    r"[\w'\u2019`*]+[,:]?(?: [\w'\u2019`*/,;:()\"“”.-]+){3,}[.?!:]?\s*"
)
_SHELL = (
    r"\s*\$ |\s*(?:python3?|pip3?|git|wget|curl|docker|bash|sudo|apt|apt-get|export|kaggle|unzip|tar|torchrun|"
    r"accelerate|jupyter|npm|streamlit|tensorboard|source|conda|nvidia-smi)\s+[-\w./~]"
)
_OPEN = ("never closed", "unterminated", "does not match", "unmatched", "EOF")


def unfinished(text: str, row: int, said: str) -> bool:
    """Whether the place where the parser gave up is a blank to be filled in, or no code at all; `said`: its words."""
    lines = text.splitlines()
    at = min(max(row, 1), len(lines)) - 1 if lines else 0
    line = lines[at] if lines else ""
    code = line.partition("#")[0]
    if re.search(_ANGLES, code) or re.search(_YOURS, line) or re.search(_UNDERSCORES, code) or re.search(_MARKS, code):
        return True
    if any(word in said for word in _OPEN):
        return False
    if re.search(_DOTS, code) or re.fullmatch(_PROSE, line) or re.match(_SHELL, line):
        return True
    if "expected an indented block" in said and re.fullmatch(_ELIDED, line):
        return True
    if "expected an indented block" in said or not code.strip() or code.rstrip().endswith(("=", "(", ",", "return")):
        return any(re.search(_ASKS, each) for each in lines[max(0, at - _ABOVE) : at + 1])
    return re.search(_ASKS, line) is not None


def has_gradients(data: bytes) -> bool:
    """Whether there is training in a text that cannot be read."""
    return any(word in data for word in (b".backward(", b"zero_grad", b"clip_grad", b"GradScaler", b"optimizer.step"))
