"""Spreads the files worth parsing over processes; one that dies takes only its own file with it."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradlint.model import FileResult, Fixed, RuleCrash
from gradlint.runner.files import SourceFile

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

# Below this, starting processes (each imports the parser) takes longer than the work itself.
_WORTH_FILES = 24
_WORTH_BYTES = 150_000
_NEEDED = (
    "python.source", "python.lower", "python.anchor", "paths.explorer", "facts.tensors", "machine.judge",
    "repair.trial", "repair.bench",
)  # fmt: skip


class Candidate(NamedTuple):
    """A file that may hold findings, with the content that was read."""

    file: SourceFile
    source: bytes
    digest: str | None = None


Done = tuple[Candidate, Fixed]


class Processes:
    """Takes candidates as they are found; starts processes once enough have come, and else works here.

    `unsafe` is None if files are only linted; else they are fixed as well, with or without the unsafe fixes.
    """

    def __init__(self, jobs: int, unsafe: bool | None = None) -> None:
        self._jobs = jobs
        self._unsafe = unsafe
        self._waiting: list[Candidate] = []
        self._waiting_bytes = 0
        self._pool: ProcessPoolExecutor | None = None
        self._running: dict[Future[FileResult | Fixed], Candidate] = {}
        self._lost: list[Candidate] = []

    def add(self, candidate: Candidate) -> None:
        if self._pool is not None:
            self._submit(candidate)
            return
        self._waiting.append(candidate)
        self._waiting_bytes += len(candidate.source)
        worth = len(self._waiting) > _WORTH_FILES or self._waiting_bytes > _WORTH_BYTES
        if worth and self._jobs > 1 and len(self._waiting) > 1:
            self._start()

    def results(self) -> Iterator[Done]:
        """Every candidate's result, in no particular order."""
        if self._pool is None:
            for candidate in self._waiting:
                yield candidate, _settled(candidate, self._task(candidate)())
            return
        yield from self._collect()
        yield from self._one_by_one()

    def stop(self) -> None:
        """Leave without waiting for work that nobody wants any more."""
        if self._pool is not None:
            processes = list((getattr(self._pool, "_processes", None) or {}).values())
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()

    def _start(self) -> None:
        self._pool = _pool(self._jobs)
        waiting, self._waiting = self._waiting, []
        for candidate in waiting:
            self._submit(candidate)

    def _submit(self, candidate: Candidate) -> None:
        from concurrent.futures import BrokenExecutor

        assert self._pool is not None
        try:
            self._running[self._pool.submit(self._task(candidate))] = candidate
        except BrokenExecutor:
            self._lost.append(candidate)

    def _collect(self) -> Iterator[Done]:
        from concurrent.futures import BrokenExecutor, as_completed

        for future in as_completed(self._running):
            candidate = self._running[future]
            try:
                yield candidate, _settled(candidate, future.result())
            except BrokenExecutor:
                self._lost.append(candidate)
            except Exception as error:  # a result that cannot be sent back
                yield candidate, _crashed(candidate, f"{type(error).__name__}: {error}")
        if self._pool is not None:
            self._pool.shutdown()

    def _one_by_one(self) -> Iterator[Done]:
        """A process died and its neighbours' work with it: each file gets a process that no other file can break."""
        from concurrent.futures import BrokenExecutor

        pool: ProcessPoolExecutor | None = None
        for candidate in self._lost:
            pool = pool or _pool(1, fresh=True)
            try:
                yield candidate, _settled(candidate, pool.submit(self._task(candidate)).result())
            except BrokenExecutor:
                pool.shutdown(wait=False)
                pool = None
                yield candidate, _crashed(candidate, "the process that linted this file died")
        if pool is not None:
            pool.shutdown()

    def _task(self, candidate: Candidate) -> Callable[[], FileResult | Fixed]:
        """The work on one file, such that it can be sent to a process."""
        if self._unsafe is None:
            return functools.partial(lint_one, candidate.source, candidate.file)
        return functools.partial(fix_one, candidate.source, candidate.file, self._unsafe)


def lint_one(source: bytes, file: SourceFile) -> FileResult:
    """The work itself; the engine, and with it the parser, is imported by the first file that needs it."""
    try:
        from gradlint.documents import lint

        return lint(source, file.shown, file.settings)
    except Exception as error:
        return _raised(file, error)


def fix_one(source: bytes, file: SourceFile, unsafe: bool) -> Fixed:
    """The same with all fixes applied; nothing is written here."""
    try:
        from gradlint.documents import fix

        return fix(source, file.shown, file.settings, unsafe=unsafe)
    except Exception as error:
        return Fixed(source, (), _raised(file, error))


def _raised(file: SourceFile, error: Exception) -> FileResult:
    """The engine promises not to raise; should it ever, one file is lost and not the run."""
    import traceback

    crash = RuleCrash("engine", f"{type(error).__name__}: {error}", traceback.format_exc())
    return FileResult(file.shown, crashes=(crash,))


def _settled(candidate: Candidate, outcome: FileResult | Fixed) -> Fixed:
    return outcome if isinstance(outcome, Fixed) else Fixed(candidate.source, (), outcome)


def _crashed(candidate: Candidate, error: str) -> Fixed:
    return Fixed(candidate.source, (), FileResult(candidate.file.shown, crashes=(RuleCrash("engine", error, ""),)))


def _pool(jobs: int, *, fresh: bool = False) -> ProcessPoolExecutor:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Forking is fastest, and safe as long as no thread runs: true for the first pool, not for a second one.
    method = "fork" if sys.platform == "linux" and not fresh else "spawn"
    context = multiprocessing.get_context(method)
    if method == "fork":
        _import_before_fork()
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker)


def _import_before_fork() -> None:
    """Imports what the work needs, so that forked workers share it.

    With so many files one of them has a finding, as a rule: then each worker would need libcst.
    """
    from gradlint.registry import all_rules

    for name in _NEEDED:
        importlib.import_module(f"gradlint.{name}")
    all_rules()


def _begin_worker() -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers Ctrl-C for all
    relax_collector()


def relax_collector() -> None:
    """Syntax trees are large and short-lived: look for cycles in them after a million new objects, not after 700."""
    gc.set_threshold(1_000_000, 20, 50)


def default_jobs() -> int:
    """The processors this process may use."""
    count: Callable[[], int | None] | None = getattr(os, "process_cpu_count", None)
    if count is not None:
        return count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
