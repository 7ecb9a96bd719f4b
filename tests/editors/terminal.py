"""A program in a terminal of its own: what it draws is read, keys are sent."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|P.*?\x1b\\|[ -/]*[0-~])", re.S)


class Terminal:
    """Everything that was drawn, without colours and spaces: an editor may move the cursor instead of writing those."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str], patience: float) -> None:
        self._patience = patience
        self._end, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._drawn = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._end)

    def press(self, keys: str) -> None:
        """Send keys; what was drawn before does not count as seen any more."""
        self._drawn = b""
        os.write(self._end, keys.encode())

    def leave(self, keys: str) -> None:
        """End the program as people do, so that it ends what it has started."""
        self.press(keys)
        self.await_that(lambda: self._process.poll() is not None, "the end")

    def await_text(self, text: str) -> None:
        wanted = "".join(text.split())
        self.await_that(lambda: wanted in self.drawn(), text)

    def await_that(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + self._patience
        while not condition():
            assert time.monotonic() < end, f"waited in vain for {what}; drawn was {self.drawn()[-3000:]}"
            self._read()

    def drawn(self) -> str:
        return "".join(_ESCAPES.sub("", self._drawn.decode("utf-8", "replace")).split())

    def _read(self) -> None:
        ready, _, _ = select.select([self._end], [], [], 0.05)
        if ready:
            try:
                self._drawn += os.read(self._end, 65536)
            except OSError:  # the program has ended; what it has drawn stays
                time.sleep(0.05)
