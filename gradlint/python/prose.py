"""Source without its comments and its prose, for whoever looks for words of code in bytes that nobody has parsed."""

from __future__ import annotations

import functools
import re

#: in front of an f-string or a t-string, which may be raw as well
_COMPUTES = re.compile(rb"[fFtT][rR]?\Z")
_SPACE = re.compile(rb"\s")
_HOLE = re.compile(rb"\{[^{}]*\}")


@functools.cache  # made when somebody asks: the small files of a short run do not
def _piece() -> re.Pattern[bytes]:
    """A comment, a string in quotes of any kind, or a quotation mark that ends nothing."""
    return re.compile(
        rb'#[^\r\n]*|"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
        rb"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
        rb'|"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*"|\'[^\'\\\r\n]*(?:\\.[^\'\\\r\n]*)*\'|["\']',
        re.DOTALL,
    )


class _UnclearError(Exception):
    """Where a string ends cannot be told without a parser."""


@functools.lru_cache(maxsize=1)  # the same file is asked about twice: whether to read it, and who can speak of it
def without_prose(source: bytes) -> bytes:
    """Without comments and without the text of strings that hold more than one word; as it is where that is unclear.

    Nothing is read out of such strings: a word that stands for a name stands alone. What an f-string computes stays.
    """
    try:
        return _piece().sub(_code_of, source)
    except _UnclearError:
        return source


def _code_of(piece: re.Match[bytes]) -> bytes:
    text = piece[0]
    if text[:1] == b"#":
        return b""
    if len(text) == 1:
        raise _UnclearError
    start = piece.start()
    if _COMPUTES.search(piece.string, max(0, start - 2), start):
        # what it computes may have strings in the same quotation marks, since Python 3.12
        if b"{{" in text or b"}}" in text or text.count(b"{") != text.count(b"}"):
            raise _UnclearError
        if not _SPACE.search(text) or b"{" in _HOLE.sub(b"", text):
            return text
        return b'""' + b" ".join(_HOLE.findall(text))
    return b'""' if _SPACE.search(text) else text
