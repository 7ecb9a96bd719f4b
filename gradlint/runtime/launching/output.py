"""What a script prints, followed while it runs and kept to its last lines."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from pathlib import Path

LINES = 200
_BYTES = 256 * 1024
_AGENT_LINE = re.compile(r"^[EWI]\d{4} [^\n]*torch[/\\]distributed[/\\]elastic[^\n]*\n", re.MULTILINE)
_AGENT_ERROR = re.compile(
    r"^Traceback \(most recent call last\):\n(?:(?!Traceback )[^\n]*\n)*?[\w.]*ChildFailedError:.*",
    re.MULTILINE | re.DOTALL,
)


class Follower:
    """Hands on what is new in a growing file."""

    def __init__(self, path: Path, tell: Callable[[str], None] | None) -> None:
        self._path = path
        self._tell = tell
        self._position = 0
        # a character may be cut in two between two looks
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def look(self, *, last: bool = False) -> None:
        if self._tell is None:
            return
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        self._position += len(data)
        if text := self._decoder.decode(data, last):
            self._tell(text)


def end_of(path: Path, lines: int = LINES) -> str:
    """The last lines; of a line that was written over (a progress bar) what was there at the end."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _BYTES))
        text = file.read().decode("utf-8", errors="replace")
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in text.replace("\r\n", "\n").split("\n")]
    if size > _BYTES:
        shown = shown[1:]  # its beginning is cut off
    ended = shown[-1] == ""
    kept = shown[:-1][-lines:] if ended else shown[-lines:]
    return "\n".join(kept) + ("\n" if ended and kept else "")


def without_torchrun(text: str) -> str:
    """What torchrun itself has to say about ranks that failed: it names a script that is not the user's."""
    return _AGENT_LINE.sub("", _AGENT_ERROR.sub("", text))
