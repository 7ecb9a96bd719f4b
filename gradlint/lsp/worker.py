"""The process that lints for the server: it is kept warm, can be interrupted, and may die without harm.

The server must answer while a file is read, and neither a deep recursion nor a crash of the parser may take it down.
"""

from __future__ import annotations

import _thread
import gc
import os
import pickle
import queue
import signal
import sys
import threading
from typing import BinaryIO

from gradlint.baseline import BaselineError
from gradlint.config.selectors import Layer
from gradlint.config.settings import Settings
from gradlint.lsp.jobs import HEADER, UNNAMED, Answer, Cancel, Failure, Job, Task, packed
from gradlint.lsp.known import Keep, Known
from gradlint.lsp.memory import Memory
from gradlint.python.source import decoded
from gradlint.records import replace


class _CancelledError(BaseException):
    """Raised in the midst of the work; nothing that guards against errors of rules may catch it."""


class Worker:
    """Takes jobs one after the other; a second thread listens for what is cancelled meanwhile."""

    def __init__(self, inlet: BinaryIO, outlet: BinaryIO) -> None:
        self._inlet = inlet
        self._outlet = outlet
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._cancelled: set[int] = set()
        self._running: int | None = None
        self._known = Known()
        self._memory = Memory()

    def run(self) -> None:
        signal.signal(signal.SIGINT, self._interrupt)
        threading.Thread(target=self._listen, daemon=True).start()
        warm_up()
        while (job := self._jobs.get()) is not None:
            self._send(self._done(job))
            if self._jobs.empty():
                gc.collect()

    def _listen(self) -> None:
        while head := self._inlet.read(HEADER.size):
            message = pickle.loads(self._inlet.read(HEADER.unpack(head)[0]))
            if isinstance(message, Cancel):
                self._cancelled.add(message.number)
                if self._running == message.number:
                    _thread.interrupt_main()
            else:
                self._jobs.put(message)
        self._jobs.put(None)
        if self._running is not None:
            os._exit(0)  # the server is gone, and nobody wants the rest

    def _interrupt(self, *_: object) -> None:
        """Runs in the main thread, so what it sees is what is going on there."""
        if self._running is not None and self._running in self._cancelled:
            raise _CancelledError

    def _done(self, job: Job) -> Answer | Failure:
        try:
            self._running = job.number
            if job.number in self._cancelled:
                raise _CancelledError
            answer: Answer | Failure = work(job, self._known, self._memory)
            self._running = None
        except _CancelledError:
            self._running = None
            answer = Failure(job.number)
        except Exception as error:  # a bug of ours; the server tells it, and the next job is done
            self._running = None
            answer = Failure(job.number, f"{type(error).__name__}: {error}")
        self._cancelled.discard(job.number)
        return answer

    def _send(self, answer: Answer | Failure) -> None:
        self._outlet.write(packed(answer))
        self._outlet.flush()


def work(job: Job, known: Known, memory: Memory) -> Answer:
    keep, trouble = None, None
    try:
        keep = known.keep(job)
    except BaselineError as error:
        trouble = str(error)
    answer = _fixed(job, keep) if job.task is Task.FIX else _linted(job, keep, memory)
    return replace(answer, trouble=trouble)


def _linted(job: Job, keep: Keep | None, memory: Memory) -> Answer:
    from gradlint.config.selectors import resolve_fixable
    from gradlint.documents.notebook import lint_cells, shown_program
    from gradlint.engine import lint

    look = lint if resolve_fixable(job.settings.layers) else memory.lint
    if job.cells is not None:
        result = lint_cells(job.cells, job.path, job.settings, lint=look)
    else:
        result = look(job.source, job.path, job.settings)
    if keep is not None:
        result = keep(result, decoded(job.source) if job.cells is None else shown_program(job.cells))
    return Answer(job.number, result, {})


def _fixed(job: Job, keep: Keep | None) -> Answer:
    if job.cells is not None:
        from gradlint.documents.notebook import fix_cells

        mended = fix_cells(job.cells, job.path, job.settings, unsafe=job.unsafe, keep=keep)
        return Answer(job.number, mended.result, mended.texts)
    from gradlint.engine import fix

    fixed = fix(job.source, job.path, job.settings, unsafe=job.unsafe, keep=keep)
    return Answer(job.number, fixed.result, {} if fixed.source == job.source else {0: decoded(fixed.source)})


_SAMPLE = b"""import torch
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""


def warm_up() -> None:
    """Import the parser and the rules before the first file comes; what is imported then is never garbage."""
    for settings in (Settings(), Settings(layers=(Layer(fixable=()),))):
        work(Job(0, Task.LINT, UNNAMED, settings, _SAMPLE), Known(), Memory())
    gc.collect()
    gc.freeze()
    gc.disable()  # garbage is looked for between two jobs, when nobody waits


def main() -> None:
    """Speaks through the pipes that it was started with; what anything prints must not get in between."""
    outlet = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    Worker(sys.stdin.buffer, outlet).run()
