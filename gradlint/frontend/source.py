"""Reads bytes as Python source: encodings, broken files, grammar that is newer than this Python."""

from __future__ import annotations

import ast
import codecs
import io
import tokenize
import warnings
from typing import TYPE_CHECKING

from gradlint.model import Unreadable
from gradlint.records import dataclass

if TYPE_CHECKING:
    import libcst


@dataclass(frozen=True, slots=True)
class Broken:
    """Source that does not parse."""

    message: str
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Source:
    """Source that parses; `tree` is None when only libcst understands it (newer grammar than this Python's)."""

    data: bytes
    text: str
    tree: ast.Module | None

    def parse(self) -> libcst.Module:
        """libcst's tree, which keeps every comment and space."""
        import libcst

        return libcst.parse_module(self.text)


def read(data: bytes) -> Source | Broken | Unreadable:
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Source(data, text, ast.parse(text))
    except SyntaxError as error:
        return _second_opinion(data, text, error)
    except (ValueError, RecursionError, MemoryError) as error:
        return Unreadable(f"it cannot be parsed: {str(error) or 'it is nested too deeply'}")


def decoded(data: bytes) -> str:
    """The text as Python would read it; undecodable bytes are shown as such rather than hidden."""
    return data.decode(encoding_of(data), "replace")


def encoding_of(data: bytes) -> str:
    try:
        return tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except (SyntaxError, LookupError):
        return "utf-8-sig"


def _second_opinion(data: bytes, text: str, error: SyntaxError) -> Source | Broken | Unreadable:
    """libcst knows grammar that an older Python does not."""
    if "too many nested" in (error.msg or ""):
        return Unreadable("it is nested too deeply")  # libcst would overflow the stack
    import libcst

    try:
        libcst.parse_module(text)
    except libcst.ParserSyntaxError:
        return Broken(f"This file does not parse: {error.msg}", error.lineno or 1, error.offset or 1)
    except RecursionError:
        return Unreadable("it is nested too deeply")
    return Source(data, text, None)
