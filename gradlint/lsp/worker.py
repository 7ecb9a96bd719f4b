"""The process that lints for the server: it is kept warm, can be interrupted, and may die without harm.

The server must answer while a file is read, and neither a deep recursion nor a crash of the parser may take it down.
"""

from __future__ import annotations

import _thread
import gc
import hashlib
import os
import pickle
import queue
import signal
import sys
import threading
from typing import TYPE_CHECKING, BinaryIO

from gradlint.baseline import Baseline, BaselineError, read_baseline
from gradlint.config.load import ConfigTree, Overrides
from gradlint.config.selectors import Layer, resolve_fixable
from gradlint.config.settings import Settings
from gradlint.documents.notebook import fix_cells, lint_cells, shown_program
from gradlint.engine import fix, lint, project_of
from gradlint.lsp.pipe import HEADER, UNNAMED, Answer, Buffer, Cancel, Failure, Job, Task, packed
from gradlint.model import FileResult, Unreadable
from gradlint.python.roots import lay_over
from gradlint.python.source import decoded
from gradlint.records import dataclass, replace
from gradlint.runner.cache import digest_of
from gradlint.runner.files import UNKNOWN, SourceFile, Stamp, bytes_now
from gradlint.runner.importers import Importers
from gradlint.runner.ledger import Analysed, Keep, Ledger, undisputed
from gradlint.runner.run import lint_one, worth_parsing

if TYPE_CHECKING:
    from gradlint.config import Settings
    from gradlint.inquiry import Inquiry, Reading
    from gradlint.model import FileResult
    from gradlint.python.source import Source

#: programs that are remembered: as many as somebody works on at a time
_MOST = 4
#: files that import others, whose results are remembered
_MOST_NEIGHBOURS = 64
_SAMPLE = b"""import torch
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""


class Baselines:
    """The baselines that were read, as long as their files stay the same."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[Stamp, Baseline]] = {}

    def keep(self, job: Job) -> Keep | None:
        """None where everything counts; BaselineError if the file is no baseline."""
        file = job.settings.baseline
        if file is None or job.path == UNNAMED:
            return None
        try:
            stamp = Stamp.of(os.stat(file))
        except OSError as error:
            raise BaselineError(f"{file}: cannot be read: {error.strerror}") from None
        stamped, baseline = self._read.get(file, (None, None))
        if baseline is None or stamped != stamp:
            baseline = read_baseline(file)
            self._read[file] = stamp, baseline
        return baseline.silence


class Memory:
    """What the rules said of a program last time: many a key changes a comment, or code that has no gradients."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bytes, Reading]] = {}

    def lint(self, source: bytes, path: str, settings: Settings) -> FileResult:
        """As `engine.lint`; the rules, with what they are told, are asked only of another program than last time."""
        return lint(source, path, settings, read=lambda inquiry, text: self._read(inquiry, text, path, settings))

    def _read(self, inquiry: Inquiry, source: Source, path: str, settings: Settings) -> Reading:
        reading = inquiry.lowered(source)
        # taken before they read the program, for that leaves marks on it
        said = (
            settings.options,
            settings.target_torch,
            settings.project,
            sorted(settings.enabled_for(path)),
            reading.lowering.body,
        )
        key = hashlib.blake2b(pickle.dumps(said, pickle.HIGHEST_PROTOCOL)).digest()
        known, before = self._known.pop(path, (b"", reading))
        if known == key and (before.project is None or not before.project.changed):
            reading.take_over(before)
        else:
            inquiry.asked(reading)
        if not inquiry.crashes:
            self._known[path] = key, reading
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return reading


@dataclass(frozen=True, slots=True)
class _Known:
    settings: Settings
    digest: str
    result: FileResult


class Neighbours:
    """The results of files that are not looked at, but import one that is; they stay known as long as they hold."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def settled(self, path: str, settings: Settings, result: FileResult, overrides: Overrides) -> FileResult:
        """What was found in a file, with what the files that import it know of it; as `gradlint check` of it says."""

        def as_here(found: Settings) -> Settings:
            return replace(found, project=settings.project)

        file = SourceFile(path, path, UNKNOWN, settings, True)
        importers = Importers(ConfigTree(overrides), (), as_here)
        others = [Analysed(other, self._result(other)) for other in importers.of([file])]
        (whole,) = Ledger([Analysed(file, result), *others], importers.counts).settled([file], frozenset())
        return whole

    def _result(self, file: SourceFile) -> FileResult:
        try:
            source = bytes_now(file.path)
        except OSError:
            return FileResult(file.shown, unreadable=Unreadable("it cannot be read"))
        digest = digest_of(source)
        known = self._known.pop(file.path, None)
        if known is None or known.digest != digest or known.settings != file.settings or _is_stale(known, file):
            known = _Known(file.settings, digest, _read_anew(source, file))
        self._known[file.path] = known
        while len(self._known) > _MOST_NEIGHBOURS:
            del self._known[next(iter(self._known))]
        return known.result


def _read_anew(source: bytes, file: SourceFile) -> FileResult:
    project = project_of(file.path, file.settings)
    if worth_parsing(source, file.settings, file.path, project):
        return lint_one(source, file)
    return FileResult(file.shown, probes=() if project is None else tuple(project.probes.items()))


def _is_stale(known: _Known, file: SourceFile) -> bool:
    """Whether a file that the result was made of holds something else by now."""
    project = project_of(file.path, file.settings)
    assert project is not None
    return project.differs(dict(known.result.probes))


class _CancelledError(BaseException):
    """Raised in the midst of the work; nothing that guards against errors of rules may catch it."""


class Worker:
    """Takes jobs one after the other; a second thread listens for what is cancelled meanwhile."""

    def __init__(self, inlet: BinaryIO, outlet: BinaryIO) -> None:
        self._inlet = inlet
        self._outlet = outlet
        self._jobs: queue.SimpleQueue[Job | Buffer] = queue.SimpleQueue()
        self._cancelled: set[int] = set()
        self._running: int | None = None
        self._baselines = Baselines()
        self._memory = Memory()
        self._neighbours = Neighbours()

    def run(self) -> None:
        signal.signal(signal.SIGINT, self._interrupt)
        threading.Thread(target=self._listen, daemon=True).start()
        warm_up()
        while True:
            message = self._jobs.get()
            if isinstance(message, Buffer):
                lay_over(message.path, message.source)
            else:
                self._send(self._done(message))
            if self._jobs.empty():
                gc.collect()

    def _listen(self) -> None:
        """Until the pipe ends, be it in the midst of a message: then the server is gone, and nobody wants the rest."""
        try:
            while True:
                self._hear(pickle.loads(self._inlet.read(HEADER.unpack(self._inlet.read(HEADER.size))[0])))
        finally:
            os._exit(0)

    def _hear(self, message: Job | Cancel | Buffer) -> None:
        if not isinstance(message, Cancel):
            self._jobs.put(message)
            return
        self._cancelled.add(message.number)
        if self._running == message.number:
            _thread.interrupt_main()

    def _interrupt(self, *_: object) -> None:
        """Runs in the main thread, so what it sees is what is going on there."""
        if self._running is not None and self._running in self._cancelled:
            raise _CancelledError

    def _done(self, job: Job) -> Answer | Failure:
        try:
            self._running = job.number
            if job.number in self._cancelled:
                raise _CancelledError
            answer: Answer | Failure = work(job, self._baselines, self._memory, self._neighbours)
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


def work(job: Job, baselines: Baselines, memory: Memory, neighbours: Neighbours) -> Answer:
    keep, trouble = None, None
    try:
        keep = baselines.keep(job)
    except BaselineError as error:
        trouble = str(error)
    answer = _fixed(job, keep, neighbours) if job.task is Task.FIX else _linted(job, keep, memory, neighbours)
    return replace(answer, trouble=trouble)


def _linted(job: Job, keep: Keep | None, memory: Memory, neighbours: Neighbours) -> Answer:
    look = lint if resolve_fixable(job.settings.layers) else memory.lint
    if job.cells is not None:
        result = lint_cells(job.cells, job.path, job.settings, lint=look)
    else:
        result = look(job.source, job.path, job.settings)
    hushed: frozenset[tuple[str, str]] = frozenset()
    if job.task is Task.SETTLE:
        own, result = result, neighbours.settled(job.path, job.settings, result, job.overrides)
        hushed = _said(own) - _said(result)
    if keep is not None:
        result = keep(result, decoded(job.source) if job.cells is None else shown_program(job.cells))
    return Answer(job.number, result, {}, hushed=hushed)


def _said(result: FileResult) -> frozenset[tuple[str, str]]:
    return frozenset((finding.code, finding.message) for finding in result.findings)


def _fixed(job: Job, keep: Keep | None, neighbours: Neighbours) -> Answer:
    if job.cells is not None:
        mended = fix_cells(job.cells, job.path, job.settings, unsafe=job.unsafe, keep=keep)
        return Answer(job.number, mended.result, mended.texts)
    if job.settings.project and job.path != UNNAMED:
        keep = undisputed(
            lambda result: neighbours.settled(job.path, job.settings, result, job.overrides), keep, unsafe=job.unsafe
        )
    fixed = fix(job.source, job.path, job.settings, unsafe=job.unsafe, keep=keep)
    return Answer(job.number, fixed.result, {} if fixed.source == job.source else {0: decoded(fixed.source)})


def warm_up() -> None:
    """Import the parser and the rules before the first file comes; what is imported then is never garbage."""
    for settings in (Settings(), Settings(layers=(Layer(fixable=()),))):
        work(Job(0, Task.LINT, UNNAMED, settings, _SAMPLE), Baselines(), Memory(), Neighbours())
    gc.collect()
    gc.freeze()
    gc.disable()  # garbage is looked for between two jobs, when nobody waits


def main() -> None:
    """Speaks through the pipes that it was started with; what anything prints must not get in between."""
    outlet = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    Worker(sys.stdin.buffer, outlet).run()
