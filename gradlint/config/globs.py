"""Glob patterns as regular expressions, with git's meaning of `*`, `**`, `?` and `[…]`.

Patterns come with a checkout from anywhere, so none may take long: the work is bounded by the lengths of pattern and
path, multiplied. Between two stars of one name, and between two `**/`, the first place that fits is as good as any
later one. So each is found once and never tried again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import count

_CLASS = r"\[(!|\^)?(\]?(?:\\.|\[:[a-z]+:\]|[^\]\\])*)\]"
_POSIX = {
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:alnum:]": "a-zA-Z0-9",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:space:]": r"\s",
    "[:punct:]": re.escape("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"),
    "[:xdigit:]": "0-9a-fA-F",
}
_NEVER = r"(?!)"
_SPECIAL, _ESCAPED = r"[*?\[\\]", r"\\\g<0>"
# these three stand beside expressions that match one character each
_STAR = "*"
_FOLDERS = "**/"
_REST = "**"


def one_of(globs: Iterable[str]) -> re.Pattern[str]:
    """Matches (with fullmatch) a path with forward slashes if any of the patterns does."""
    numbers = count()
    expressions = [_expression(glob, numbers) for glob in globs]
    return re.compile("|".join(expressions) if expressions else _NEVER)


def anchored(pattern: str, folder: str) -> str:
    """A pattern with a slash in it as one of whole paths, from this folder on; one without is about names anywhere."""
    plain = pattern.rstrip("/")
    if "/" not in plain:
        return plain
    above = folder.replace(os.sep, "/").rstrip("/")
    if plain.startswith(f"{above}/"):
        return plain
    return f"{re.sub(_SPECIAL, _ESCAPED, above)}/{plain.removeprefix('./').removeprefix('/')}"


def _expression(glob: str, numbers: Iterator[int]) -> str:
    pieces = list(_pieces(glob))
    rest = r"(?s:.+)" if pieces and pieces[-1] == _REST else ""
    first, *chunks = _split(pieces[:-1] if rest else pieces, _FOLDERS)
    out = [_chunk(first, numbers)]
    for place, chunk in enumerate(chunks, start=1):
        found = "(?:[^/]*/)*?" + _chunk(chunk, numbers)
        out.append(found if place == len(chunks) else _once(found, numbers))
    return "".join(out) + rest


def _chunk(pieces: list[str], numbers: Iterator[int]) -> str:
    return "/".join(_name(name, numbers) for name in _split(pieces, "/"))


def _name(pieces: list[str], numbers: Iterator[int]) -> str:
    """What stands between two slashes."""
    first, *parts = ("".join(part) for part in _split(pieces, _STAR))
    if not parts:
        return first
    return "".join((first, *(_once(f"[^/]*?{part}", numbers) for part in parts[:-1]), f"[^/]*{parts[-1]}"))


def _once(expression: str, numbers: Iterator[int]) -> str:
    """The first match only, as an atomic group, which Python 3.10 does not have: a look ahead is never gone back to."""
    name = f"g{next(numbers)}"
    return f"(?=(?P<{name}>{expression}))(?P={name})"


def _split(pieces: list[str], separator: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for piece in pieces:
        if piece == separator:
            parts.append([])
        else:
            parts[-1].append(piece)
    return parts


def _pieces(glob: str) -> Iterator[str]:
    """`*`, `**/`, a last `**`, and expressions for one character each."""
    character_class = re.compile(_CLASS)
    may_close = True
    i = 0
    while i < len(glob):
        char = glob[i]
        at_start = i == 0 or glob[i - 1] == "/"
        if at_start and glob.startswith("**/", i):
            yield _FOLDERS
            i += 3
        elif at_start and len(glob) - i == 2 and glob.endswith("**"):
            yield _REST
            i += 2
        elif char == "*":
            while i < len(glob) and glob[i] == "*":
                i += 1
            yield _STAR
        elif char == "?":
            yield "[^/]"
            i += 1
        elif char == "\\" and i + 1 < len(glob):
            yield re.escape(glob[i + 1])
            i += 2
        elif char == "[" and may_close and (found := character_class.match(glob, i)):
            yield _character_class(found)
            i = found.end()
        else:
            may_close = may_close and char != "["  # where one finds no end, no later one does
            yield re.escape(char)
            i += 1


def _character_class(found: re.Match[str]) -> str:
    body = found[2]
    for name, members in _POSIX.items():
        body = body.replace(name, members)
    # `[` , `&&`, `||` and `~~` would mean sets of sets to `re` one day; a first `]` is a member to git
    body = body.replace("[", r"\[").replace("&&", r"&\&").replace("||", r"|\|").replace("~~", r"~\~")
    if body.startswith("]"):
        body = "\\" + body
    if body.startswith("^"):
        body = "\\" + body
    expression = f"[^{body}/]" if found[1] else f"(?!/)[{body}]"
    try:
        re.compile(expression)
    except re.error:  # such as the range `[z-a]`, which matches nothing in git either
        return _NEVER
    return expression
