"""What fixing would change, as a unified diff: to the byte for programs, painted and harmless for terminals."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import NamedTuple

from gradlint.documents import Kind, kind_of
from gradlint.documents.notebook import cells_of
from gradlint.python.source import encoding_of
from gradlint.report.paths import as_bytes
from gradlint.report.text import Paint, visible
from gradlint.runner.write import FixedFile

_NO_NEWLINE = b"\\ No newline at end of file"
_ROLES = {b"+": "added", b"-": "removed", b"@": "story"}


def unified(file: FixedFile) -> bytes:
    """As `patch` and `git apply -p0` understand it, in the file's own encoding and with its own newlines."""
    return b"".join(line.text + b"\n" for line in _lines(file))


def painted(file: FixedFile, paint: Paint) -> Iterator[str]:
    encoding = encoding_of(file.before)
    for line in _lines(file):
        text = "".join(visible(char) for char in line.text.decode(encoding, "replace").removesuffix("\r"))
        yield paint(
            text.rstrip() if line.is_head else text, "path" if line.is_head else _ROLES.get(line.text[:1], "plain")
        )


class _Line(NamedTuple):
    """Without its end."""

    text: bytes
    is_head: bool = False


def _lines(file: FixedFile) -> Iterator[_Line]:
    if kind_of(file.path) is not Kind.NOTEBOOK:
        # or `patch` takes a name to end at its first space; git writes the same
        name = f"{file.path}\t" if " " in file.path else file.path
        # what came through stdin has no name, so its diff has no head, as ruff's
        return _compared(None if file.path == "-" else name, file.before, file.after)
    return _cells(file)


def _cells(file: FixedFile) -> Iterator[_Line]:
    """Cell by cell, in the words of the cells: their JSON is hard to read, and nobody patches it by hand."""
    before, after = ({cell.number: cell.text for cell in cells_of(x)} for x in (file.before, file.after))
    for number, text in before.items():
        if after.get(number, text) != text:
            yield from _compared(f"{file.path}:cell {number}", _ended(text), _ended(after[number]))


def _ended(text: str) -> bytes:
    """A cell's last line has no end as a rule, and that is not worth a word."""
    return (text if text.endswith("\n") or not text else f"{text}\n").encode("utf-8", "surrogatepass")


def _compared(name: str | None, before: bytes, after: bytes) -> Iterator[_Line]:
    named = b"" if name is None else as_bytes(name)
    made = difflib.diff_bytes(difflib.unified_diff, _split(before), _split(after), named, named, lineterm=b"\n")
    for number, line in enumerate(made):
        if number < 2 and name is None:
            continue
        yield _Line(line.removesuffix(b"\n"), number < 2)
        if not line.endswith(b"\n"):
            yield _Line(_NO_NEWLINE)


def _split(source: bytes) -> list[bytes]:
    """At line feeds only: what `patch` calls a line."""
    lines = [line + b"\n" for line in source.split(b"\n")]
    lines[-1] = lines[-1].removesuffix(b"\n")
    return lines if lines[-1] else lines[:-1]
