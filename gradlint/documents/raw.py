"""The bytes of a notebook's file: where the source of each code cell stands, and how to write it anew."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gradlint.comments import lines_of
from gradlint.documents.cells import CodeCell
from gradlint.records import dataclass

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class NotANotebook:
    """Why there is nothing to lint; without a reason, because it is empty or a notebook of another language."""

    reason: str = ""
    row: int | None = None
    column: int = 1


@dataclass(frozen=True, slots=True)
class Source:
    """The value of one cell's `source`: a string, or a list of strings."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Notebook:
    """The file as text, and the sources of its Python cells by their numbers."""

    text: str
    bom: bytes
    sources: Mapping[int, Source]

    def code_cells(self) -> tuple[CodeCell, ...]:
        return tuple(CodeCell(number, source.text) for number, source in self.sources.items())

    def with_sources(self, texts: Mapping[int, str]) -> bytes:
        """The file with new texts in some cells, written as the old ones were."""
        text = self.text
        for number, new in sorted(texts.items(), reverse=True):
            source = self.sources[number]
            text = text[: source.start] + _written(text[source.start : source.end], new) + text[source.end :]
        return self.bom + text.encode("utf-8", "surrogatepass")


def read(data: bytes) -> Notebook | NotANotebook:
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    if not data[len(bom) :].strip():
        return NotANotebook()  # just made: editors take it for a notebook without cells
    try:
        text = data[len(bom) :].decode("utf-8", "surrogatepass")
        whole = json.loads(text)
    except UnicodeDecodeError as error:
        return NotANotebook(f"it cannot be decoded: {error}")
    except json.JSONDecodeError as error:
        return NotANotebook(f"This notebook is not valid JSON: {error.msg}", error.lineno, error.colno)
    except RecursionError:
        return NotANotebook("it is nested too deeply")
    if not isinstance(whole, dict) or not isinstance(whole.get("cells"), list):
        older = isinstance(whole, dict) and "worksheets" in whole
        return NotANotebook("it is a notebook of format 3 or older" if older else "it is JSON, but not a notebook")
    if not _in_python(whole.get("metadata")):
        return NotANotebook()
    sources = {
        number: source
        for number, (cell, source) in enumerate(zip(whole["cells"], _sources(text), strict=True), start=1)
        if source is not None and _is_python(cell)
    }
    return Notebook(text, bom, sources)


def _in_python(metadata: Any) -> bool:
    """The kernel's language; a notebook that does not say is taken for Python."""
    for section, key in (("language_info", "name"), ("kernelspec", "language")):
        about = metadata.get(section) if isinstance(metadata, dict) else None
        if isinstance(about, dict) and isinstance(about.get(key), str):
            return bool(about[key].lower() in ("python", "ipython", "python3"))
    return True


def _is_python(cell: Any) -> bool:
    if not isinstance(cell, dict) or cell.get("cell_type") != "code":
        return False
    metadata = cell.get("metadata")
    editor = metadata.get("vscode") if isinstance(metadata, dict) else None
    language = editor.get("languageId") if isinstance(editor, dict) else None
    return language in (None, "python")


def _sources(text: str) -> Iterator[Source | None]:
    """The source of every cell, with its place; the text is known to be JSON of the right shape."""
    cells = 0
    for key, start in _members(text, _skip(text, 0)):
        if key == "cells":
            cells = start  # of equal keys the last one counts, as for every reader of JSON
    for start, _ in _elements(text, cells):
        yield _source(text, start) if text[start] == "{" else None


def _source(text: str, cell: int) -> Source | None:
    found: Source | None = None
    for key, start in _members(text, cell):
        if key == "source":
            value, end = _DECODER.raw_decode(text, start)
            whole = "".join(piece for piece in value if isinstance(piece, str)) if isinstance(value, list) else value
            found = Source(start, end, whole) if isinstance(whole, str) else None
    return found


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """The keys of an object, and where their values begin."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        yield key, at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _elements(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Where the elements of a list begin and end."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield at, end
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _written(old: str, new: str) -> str:
    """JSON of a new text in the manner of the old value; lines that stay are the same to the byte."""
    ascii_only = old.isascii() and "\\u" in old
    if old[0] == '"':
        return json.dumps(new, ensure_ascii=ascii_only)
    places = list(_elements(old, 0))
    known = {json.loads(old[start:end]): old[start:end] for start, end in places}
    lines = [known.get(line) or json.dumps(line, ensure_ascii=ascii_only) for line in lines_of(new)]
    if not lines or not places:
        return "[]" if not lines else f"[{', '.join(lines)}]"
    head, tail = old[: places[0][0]], old[places[-1][1] :]
    between = old[places[0][1] : places[1][0]] if len(places) > 1 else f",{head[1:] or ' '}"
    return head + between.join(lines) + tail
