"""Where the lines of a notebook's cells stand in the JSON of its file: what GitHub and GitLab show."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from gradlint.comments import lines_of
from gradlint.documents.raw import NotANotebook, Source, read


def json_rows(source: bytes) -> dict[int, list[int]]:
    """For each code cell, by number, the row in the file of each of its lines."""
    notebook = read(source)
    if isinstance(notebook, NotANotebook):
        return {}
    starts = [0, *accumulate(len(line) for line in lines_of(notebook.text))]
    return {number: list(_rows(notebook.text, own, starts)) for number, own in notebook.sources.items()}


def _rows(text: str, source: Source, starts: list[int]) -> Iterator[int]:
    """A line stands where the string begins that its first character is in."""
    begun = ""
    for offset, piece in _pieces(text, source):
        row = bisect_right(starts, offset)
        for line in lines_of(piece):
            if not begun:
                yield row
            begun = "" if line.endswith(("\n", "\r")) else line


def _pieces(text: str, source: Source) -> Iterator[tuple[int, str]]:
    """The strings that a source is made of, and where they begin."""
    if text[source.start] == '"':
        yield source.start, source.text
        return
    decoder = json.JSONDecoder()
    at = text.find('"', source.start, source.end)
    while at != -1:
        piece, end = decoder.raw_decode(text, at)
        yield at, piece
        at = text.find('"', end, source.end)
