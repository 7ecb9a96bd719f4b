"""How a process came to its end, and what it said until then: what the recording has no place for."""

from __future__ import annotations

import codecs
import dataclasses
import importlib
import json
import os
import re
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from gradlint.runtime.lines import have_enough
from gradlint.runtime.recording import Raised, Recording

_OWN = os.path.normcase(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep)
#: a package is imported by hand before its script runs
_IMPORTLIB = os.path.normcase(os.path.abspath(importlib.__file__))
_FRAME = re.compile(r'^(?P<indent>[ |+]*)File "(?P<file>.*)", line \d+')
_SOURCE = re.compile(r"^(?P<indent>[ |+]*)")


def is_ours(filename: str) -> bool:
    return os.path.normcase(filename).startswith(_OWN)


def tell(error: BaseException) -> str:
    """The whole traceback, with causes, as Python prints it."""
    found = traceback.TracebackException(type(error), error, trimmed(error.__traceback__))
    return without_our_frames("".join(found.format()))


def trimmed(trace: TracebackType | None) -> TracebackType | None:
    """Without our frames, nor those by which we came to the script; nothing is left of a syntax error in it."""
    while trace is not None and _leads_to_the_script(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    frames = []
    while trace is not None:
        if not is_ours(trace.tb_frame.f_code.co_filename):
            frames.append(trace)
        trace = trace.tb_next
    for frame in reversed(frames):
        trace = TracebackType(trace, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return trace


def without_our_frames(text: str) -> str:
    """Cuts frames of this package out of the text of a traceback, also of one that is quoted inside a message."""
    kept: list[str] = []
    cut_below = -1  # the indentation of the frame that is being cut
    for line in text.splitlines(keepends=True):
        indent = _width(line)
        if frame := _FRAME.match(line):
            cut_below = indent if is_ours(frame["file"]) else -1
        elif indent <= cut_below:
            cut_below = -1
        if cut_below < 0:
            kept.append(line)
    return "".join(kept)


def _leads_to_the_script(filename: str) -> bool:
    return is_ours(filename) or filename.startswith("<frozen ") or os.path.normcase(filename) == _IMPORTLIB


def _width(line: str) -> int:
    found = _SOURCE.match(line)
    return len(found["indent"]) if found else 0


# -- what it prints ----------------------------------------------------------------------------------------------------


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


def end_of(path: Path) -> str:
    """The last lines; of a line that was written over (a progress bar) what was there at the end."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _BYTES))
        text = file.read().decode("utf-8", errors="replace")
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in text.replace("\r\n", "\n").split("\n")]
    if size > _BYTES:
        shown = shown[1:]  # its beginning is cut off
    ended = shown[-1] == ""
    kept = shown[:-1][-LINES:] if ended else shown[-LINES:]
    return "\n".join(kept) + ("\n" if ended and kept else "")


def without_torchrun(text: str) -> str:
    """What torchrun itself has to say about ranks that failed: it names a script that is not the user's."""
    return _AGENT_LINE.sub("", _AGENT_ERROR.sub("", text))


# -- how it ended ------------------------------------------------------------------------------------------------------


_PREFIX = "ending-"
_TROUBLE = "trouble-"
_LOST_RANK = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "ncclRemoteError")


@dataclass(frozen=True)
class Ending:
    """An exception that left the script."""

    #: the order in which processes failed tells which was the first
    time: float
    traceback: str
    #: a file was not found that stands beside the script, but not in the working directory
    elsewhere: str = ""

    def write(self, folder: str) -> None:
        path = Path(folder, f"{_PREFIX}{os.getpid()}.json")
        path.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")


def endings(folder: Path) -> list[Ending]:
    """The first failure first."""
    found = []
    for path in folder.glob(f"{_PREFIX}*.json"):
        try:
            found.append(Ending(**json.loads(path.read_text(encoding="utf-8"))))
        except ValueError:
            continue  # the process was killed while it wrote
    return sorted(found, key=lambda e: e.time)


class Patience:
    """With a script that goes on when its processes have done their steps: it may wait for what they cannot send."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder = folder
        self._seconds = seconds
        self._looked = time.monotonic()
        self._since: float | None = None

    def is_over(self) -> bool:
        now = time.monotonic()
        if now - self._looked >= 1:
            self._looked = now
            self._since = (self._since or now) if have_enough(self._folder) else None
        return self._since is not None and now - self._since > self._seconds


def forget_lost_ranks(recordings: list[Recording]) -> bool:
    """One rank had done its steps and was stopped; that another then lost it is no failure of the script.

    Whether there was such a one; it then counts as stopped too.
    """
    ends = [recorded.end for recorded in recordings]
    if not any(end is not None and end.how == "enough" for end in ends):
        return False
    found = False
    for recorded, end in zip(recordings, ends, strict=True):
        lost = [h for h in recorded.of(Raised) if any(sign in h.message for sign in _LOST_RANK)]
        if lost and end is not None and end.how == "raised":
            stopped = dataclasses.replace(end, how="enough", code=0)
            recorded.happenings = [stopped if h is end else h for h in recorded.happenings if h not in lost]
            found = True
    return found


def were_stopped(recordings: list[Recording]) -> bool:
    """The wanted steps were done, and nothing had failed by then: how the script came to its end is our doing."""
    ends = [recorded.end for recorded in recordings]
    return any(end is not None and end.how == "enough" for end in ends) and all(
        end is None or end.how in ("enough", "finished") for end in ends
    )


def elsewhere(error: BaseException | None, home: str) -> str:
    """The relative path that was not found here and would be found in the script's folder."""
    while error is not None:
        name = error.filename if isinstance(error, FileNotFoundError) else None
        if isinstance(name, bytes):
            name = os.fsdecode(name)
        if isinstance(name, str) and name and not os.path.isabs(name) and os.path.exists(os.path.join(home, name)):
            return name
        error = error.__cause__ or error.__context__
    return ""


def note_trouble(folder: str, text: str) -> None:
    """Something went wrong on our side."""
    Path(folder, f"{_TROUBLE}{os.getpid()}.txt").write_text(text, encoding="utf-8")


def troubles(folder: Path) -> dict[int, str]:
    """By process."""
    found = sorted(folder.glob(f"{_TROUBLE}*.txt"))
    return {int(path.stem.removeprefix(_TROUBLE)): path.read_text(encoding="utf-8") for path in found}
