"""The pages of the rules: under the cursor, and as a document of their own."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from functools import cache

from lsprotocol import types
from pygls.uris import from_fs_path

from gradlint.docs.pages import page
from gradlint.lsp.texts import Program, Spot, Text
from gradlint.registry import find, rule_url

#: a comment that names rules, of ours or of everybody's
_NAMING = re.compile(
    r"#\s*(?:gradlint:\s*ignore(?:-file)?\s*\[(?P<own>[^\]\n]*)\]|noqa\s*:(?P<noqa>[\w,\s]*))", re.IGNORECASE
)
_WORD = re.compile(r"[\w-]+")


@cache
def page_of(name: str) -> str | None:
    """The page of a rule, by its code or name, in Markdown."""
    rule = find(name)
    return None if rule is None else f"{page(rule)}\n[{rule.meta.code}]({rule_url(rule.meta.code)})\n"


def hover(program: Program, uri: str, place: types.Position) -> tuple[str, types.Range] | None:
    """The page of the rule that a comment names at a place, and those of what was found there."""
    found = [d for d in program.shown.get(uri, ()) if _holds(d.range, place)]
    pages = [page for code in dict.fromkeys(str(d.code) for d in found) if (page := page_of(code))]
    where = found[0].range if found else None
    if named := _named(program.text(uri), place):
        pages, where = [named[0], *pages], named[1]
    return ("\n---\n\n".join(pages), where) if where is not None else None


def _named(text: Text, place: types.Position) -> tuple[str, types.Range] | None:
    position = text.position(place)
    line, column = text.lines[position.row - 1], position.column - 1
    for comment in _NAMING.finditer(line):
        start, end = comment.span("own" if comment["own"] is not None else "noqa")
        for word in _WORD.finditer(line, start, end):
            if word.start() <= column < word.end() and (page := page_of(word[0])):
                sides = (types.Position(place.line, text.width(line, at)) for at in word.span())
                return page, types.Range(*sides)
    return None


def _holds(where: types.Range, place: types.Position) -> bool:
    start, end, at = (Spot(p.line, p.character) for p in (where.start, where.end, place))
    return start <= at < end or start == at


class PageFiles:
    """Pages as files, for editors that can open one; gone when the server ends."""

    def __init__(self) -> None:
        self._folder: str | None = None

    def address(self, code: str, text: str) -> str:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="gradlint-")
        path = os.path.join(self._folder, f"{code}.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return str(from_fs_path(path))

    def clear(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
