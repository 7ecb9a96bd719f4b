"""Writes what happened as JSON lines, one file for each process."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TextIO

from gradlint.runtime.jsonl import PREFIX, encode, header
from gradlint.runtime.recording import Happening, Recording


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
            if self._file is not None and os.getpid() == self._pid:
                self._line(header(self.about))

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
            self._file = open(self.folder / f"{PREFIX}{self._pid}.jsonl", "a", encoding="utf-8", buffering=1)  # noqa: SIM115
            self._file.write(header(self.about) + "\n")

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
            if self._file is not None and os.getpid() == self._pid:
                self._file.flush()
