"""The server's side of the process that lints: asks, cancels, and starts it anew when it has died."""

from __future__ import annotations

import asyncio
import enum
import itertools
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Callable

import gradlint
from gradlint.config.load import Overrides
from gradlint.config.settings import Settings
from gradlint.documents.notebook import CodeCell
from gradlint.model import FileResult
from gradlint.records import dataclass

#: the name of what has no file, where rules are chosen by path
UNNAMED = "untitled.py"
#: in front of each message: its length
HEADER = struct.Struct("!I")

#: the user's folder must not be where modules are imported from: it may hold an `ast.py` of its own
START = """\
import os, sys
sys.path[:] = [p for p in sys.path if p and os.path.realpath(p) != os.getcwd()] + [sys.argv[1]]
from gradlint.lsp.worker import main
main()
"""


class Task(enum.Enum):
    """The findings; those with what other files know of the file; or the text with all fixes applied."""

    LINT = "lint"
    SETTLE = "settle"
    FIX = "fix"


@dataclass(frozen=True, slots=True)
class Job:
    """A program to read: that of a file, or of a notebook's cells."""

    number: int
    task: Task
    path: str
    settings: Settings
    source: bytes = b""
    cells: tuple[CodeCell, ...] | None = None
    unsafe: bool = False
    #: what the editor says over the configuration of other files
    overrides: Overrides = Overrides()


@dataclass(frozen=True, slots=True)
class Buffer:
    """What a file holds in the editor, saved or not; None if it is closed."""

    path: str
    source: bytes | None


@dataclass(frozen=True, slots=True)
class Cancel:
    """Nobody waits for this job any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a job gave; `texts` are those that fixing has changed, by cell, or at 0 for a file."""

    number: int
    result: FileResult
    texts: dict[int, str]
    #: why all findings are told although some are said to be known
    trouble: str | None = None
    #: what is said of the file by itself, and not by those who know its callers: code and message
    hushed: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that was given up: because it was cancelled (no reason is told), or because it broke."""

    number: int
    reason: str | None = None


def packed(message: Job | Cancel | Buffer | Answer | Failure) -> bytes:
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return HEADER.pack(len(body)) + body


class LintingError(Exception):
    """There is no answer; the message says why."""


class _Line:
    """One process, with a thread for each of its pipes.

    asyncio could do that without threads, but a process of its that is being started when the server ends is waited
    for, for ever.
    """

    def __init__(
        self, folder: str | None, take: Callable[[Answer | Failure], None], died: Callable[[_Line, int], None]
    ) -> None:  # fmt: skip
        home = os.path.dirname(os.path.dirname(os.path.abspath(gradlint.__file__)))
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, home], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
        )
        self._loop = asyncio.get_running_loop()
        self._outbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._take = take
        self._died = died
        for work in (self._write, self._read):
            threading.Thread(target=work, daemon=True).start()

    def send(self, message: Job | Cancel | Buffer) -> None:
        self._outbox.put(packed(message))

    def _write(self) -> None:
        inlet = self.process.stdin
        assert inlet is not None
        try:
            while True:
                inlet.write(self._outbox.get())
                inlet.flush()
        except (OSError, ValueError):
            pass  # it has died; whoever reads tells it

    def _read(self) -> None:
        outlet = self.process.stdout
        assert outlet is not None
        try:
            while len(head := outlet.read(HEADER.size)) == HEADER.size:
                self._tell(self._take, pickle.loads(outlet.read(HEADER.unpack(head)[0])))
        except (OSError, ValueError, EOFError, pickle.UnpicklingError):
            pass  # it has died in the midst of an answer
        self._tell(self._died, self, self.process.wait())

    def _tell(self, whom: Callable[..., None], *what: object) -> None:
        try:
            self._loop.call_soon_threadsafe(whom, *what)
        except RuntimeError:
            pass  # the server has ended


class Linter:
    """Asks one process, which is started when it is first needed."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        #: where projects without a mark begin, as for whoever runs the command there
        self.folder: str | None = None
        self._line: _Line | None = None
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._buffers: dict[str, Buffer] = {}
        self._numbers = itertools.count(1)
        self._stopped = False

    def number(self) -> int:
        return next(self._numbers)

    def start(self) -> _Line:
        if self._stopped:
            raise LintingError("the server is shutting down")
        if self._line is None:
            self._line = _Line(self.folder, self._take, self._died)
            for buffer in self._buffers.values():
                self._line.send(buffer)
        return self._line

    def lay_over(self, buffer: Buffer) -> None:
        """What is open counts for the files that import it, too."""
        if buffer.source is not None:
            self._buffers[buffer.path] = buffer
        elif self._buffers.pop(buffer.path, None) is None:
            return
        if self._line is not None:
            self._line.send(buffer)

    async def ask(self, job: Job) -> Answer:
        """The answer; if whoever asks is cancelled, so is the job."""
        line = self.start()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[job.number] = future
        line.send(job)
        try:
            return await future
        except asyncio.CancelledError:
            line.send(Cancel(job.number))
            raise
        finally:
            self._waiting.pop(job.number, None)

    def _take(self, answer: Answer | Failure) -> None:
        future = self._waiting.get(answer.number)
        if future is None or future.done():
            return
        if isinstance(answer, Answer):
            future.set_result(answer)
        else:
            future.set_exception(LintingError(answer.reason or "it was cancelled"))

    def _died(self, line: _Line, code: int) -> None:
        if line is not self._line or self._stopped:
            return
        self._line = None
        self._log(f"the process that lints has ended with {code}; it is started again when it is needed")
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(LintingError(f"the process that lints has died (exit code {code})"))

    def stop(self) -> None:
        """End the process; it may be in the midst of something that nobody wants any more."""
        self._stopped = True
        if self._line is not None:
            self._line.process.kill()
            self._line.process.wait()
