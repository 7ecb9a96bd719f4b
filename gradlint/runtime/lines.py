"""A recording as lines of JSON, a file for each process: written while it runs, read when it is over."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from pathlib import Path
from typing import Any, TextIO

from gradlint.runtime.recording import KINDS, Gradient, Happening, Parameter, Place, Recording

#: the names of the files: events-<pid>.jsonl
_PREFIX = "events-"


def encode(happening: Happening) -> str:
    """One line of JSON, without what has its default value."""
    return json.dumps({"kind": happening.KIND, **_plain(happening)})


def decode(line: str) -> Happening:
    return _happening(json.loads(line))


def _happening(data: dict[str, Any]) -> Happening:
    kind = KINDS[data.pop("kind")]
    return kind(**{name: _made(name, value) for name, value in data.items()})


#: fields that hold several of a kind
_NESTED = {"places": Place, "gradients": Gradient, "before": Gradient, "rows": Parameter, "units": Parameter}


def _made(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return Place(**value)
    if name in _NESTED:
        return tuple(_NESTED[name](**{n: _made(n, v) for n, v in each.items()}) for each in value)
    return tuple(value) if isinstance(value, list) else value


def _header(recording: Recording) -> str:
    """The first line of a file."""
    about = {f.name: getattr(recording, f.name) for f in dataclasses.fields(recording) if f.name != "happenings"}
    return json.dumps({"kind": "header", **about})


def load(folder: Path) -> list[Recording]:
    """The recordings of all processes, by rank; a line that was cut off when its process was killed is left out."""
    found = [recording for path in sorted(folder.glob(f"{_PREFIX}*.jsonl")) if (recording := _read(path)) is not None]
    return sorted(found, key=lambda r: (r.rank, -len(r.happenings), r.pid))


def _read(path: Path) -> Recording | None:
    recording: Recording | None = None
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            data = json.loads(line)
        except ValueError:
            continue  # the process was killed while it wrote
        if data.get("kind") == "header":
            data.pop("kind")
            if recording is None:
                recording = Recording(**data)
            else:  # said again when more is known: the rank after init_process_group, notes
                recording = dataclasses.replace(Recording(**data), happenings=recording.happenings)
        elif recording is not None:
            recording.happenings.append(_happening(data))
    return recording


def have_enough(folder: Path) -> bool:
    """Some process was stopped after the wanted steps, and none that trains is still at it."""
    stopped = False
    for path in folder.glob(f"{_PREFIX}*.jsonl"):
        lines = path.read_bytes().splitlines()
        last = lines[-1] if lines else b""
        if b'"kind": "end"' in last:
            stopped = stopped or b'"how": "enough"' in last
        elif any(b'"kind": "step"' in line for line in lines):
            return False
    return stopped


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {f.name: _plain(getattr(value, f.name)) for f in fields if getattr(value, f.name) != f.default}
    return [_plain(v) for v in value] if isinstance(value, tuple | list) else value


# -- written -----------------------------------------------------------------------------------------------------------


class Writer:
    """Opens its file with the first line; a forked child opens one of its own."""

    def __init__(self, folder: str, about: Recording) -> None:
        self.folder = Path(folder)
        self.about = about
        self._file: TextIO | None = None
        self._pid = os.getpid()
        self._lock = threading.RLock()

    def __call__(self, happening: Happening) -> None:
        self._line(encode(happening))

    def say_again(self) -> None:
        """More is known about the process than its header said: its rank, a note."""
        with self._lock:
            if self.begun:
                self._line(_header(self.about))

    @property
    def begun(self) -> bool:
        return self._file is not None and os.getpid() == self._pid

    def begin(self) -> None:
        """Open the file, so that a process is heard of even if nothing ever happens in it."""
        with self._lock:
            if self.begun:
                return
            self._pid = os.getpid()
            self.about.pid = self._pid
            self.folder.mkdir(parents=True, exist_ok=True)
            # a pid may be used again in a long run: no line of another process is lost
            self._file = open(self.folder / f"{_PREFIX}{self._pid}.jsonl", "a", encoding="utf-8", buffering=1)  # noqa: SIM115
            self._file.write(_header(self.about) + "\n")

    def forget_parent(self) -> None:
        """In a forked child: the lock may be held by a thread that is not here."""
        self._lock = threading.RLock()
        self._file = None

    def _line(self, text: str) -> None:
        with self._lock:
            self.begin()
            assert self._file is not None
            self._file.write(text + "\n")

    def close(self) -> None:
        with self._lock:
            if self._file is not None and self.begun:
                self._file.flush()
