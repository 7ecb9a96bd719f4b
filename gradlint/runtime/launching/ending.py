"""How a process came to its end, in a file of its own: what the recording has no place for."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from gradlint.runtime.jsonl import PREFIX
from gradlint.runtime.recording import Raised, Recording

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


def have_enough(folder: Path) -> bool:
    """Some process was stopped after the wanted steps, and none that trains is still at it."""
    stopped = False
    for path in folder.glob(f"{PREFIX}*.jsonl"):
        lines = path.read_bytes().splitlines()
        last = lines[-1] if lines else b""
        if b'"kind": "end"' in last:
            stopped = stopped or b'"how": "enough"' in last
        elif any(b'"kind": "step"' in line for line in lines):
            return False
    return stopped


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
        lost = [h for h in recorded.of(Raised) if is_lost_rank(h.message)]
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


def is_lost_rank(message: str) -> bool:
    return any(sign in message for sign in _LOST_RANK)


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
