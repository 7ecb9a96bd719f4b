"""What fixing would change, as a unified diff: to the byte for programs, painted and harmless for terminals."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator

from gradlint.report.frame import visible
from gradlint.report.paint import Paint
from gradlint.report.text import encoding_of
from gradlint.runner.mending import FixedFile

_NO_NEWLINE = b"\\ No newline at end of file"


def unified(file: FixedFile) -> bytes:
    """As `patch` and `git apply -p0` understand it, in the file's own encoding and with its own newlines."""
    return b"".join(line + b"\n" for line in _lines(file))


def painted(file: FixedFile, paint: Paint) -> Iterator[str]:
    encoding = encoding_of(file.before)
    for number, line in enumerate(_lines(file)):
        text = "".join(visible(char) for char in line.decode(encoding, "replace").removesuffix("\r"))
        yield paint(text, _role(line, header=number < 2 and file.path != "-"))


def _role(line: bytes, *, header: bool) -> str:
    if header:
        return "path"
    return {b"+": "added", b"-": "removed", b"@": "story"}.get(line[:1], "plain")


def _lines(file: FixedFile) -> Iterator[bytes]:
    """The lines without their ends; what came through stdin has no name, so its diff has no head, as ruff's."""
    name = os.fsencode(file.path)
    made = difflib.diff_bytes(difflib.unified_diff, _split(file.before), _split(file.after), name, name, lineterm=b"\n")
    for number, line in enumerate(made):
        if number < 2 and file.path == "-":
            continue
        yield line.removesuffix(b"\n")
        if not line.endswith(b"\n"):
            yield _NO_NEWLINE


def _split(source: bytes) -> list[bytes]:
    """At line feeds only: what `patch` calls a line."""
    lines = [line + b"\n" for line in source.split(b"\n")]
    lines[-1] = lines[-1].removesuffix(b"\n")
    return lines if lines[-1] else lines[:-1]
