"""One run over files: cached results first, then the cheap scan, then the files worth parsing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gradlint.config.settings import Settings
from gradlint.frontend.bytescan import may_hold_events
from gradlint.model import FileResult, Unreadable
from gradlint.runner.files import SourceFile
from gradlint.runner.processes import Candidate, Workforce, lint_one, relax_collector

if TYPE_CHECKING:
    from gradlint.runner.cache import Cache

# Up to this many files every one is parsed by Python itself, so that a broken file is told even if no rule reads it.
SYNTAX_CHECKED_FILES = 500

Tick = Callable[[int, int], None]


class Run:
    """What a run saw; results in the order of their paths."""

    __slots__ = ("cached", "checked", "parsed", "results")

    def __init__(self, results: list[FileResult] | None = None, *, checked: int = 0, parsed: int = 0) -> None:
        self.results = results or []
        self.checked = checked
        self.parsed = parsed
        self.cached = 0


def run(files: Iterable[SourceFile], *, cache: Cache | None, jobs: int, tick: Tick | None = None) -> Run:
    """Lint the files; `tick(done, total)` is told of progress."""
    work = _Work(list(files), cache, jobs, tick or _silent)
    relax_collector()
    try:
        return work.done()
    except BaseException:
        work.stop()
        raise


def _silent(done: int, total: int) -> None:
    pass


class _Work:
    def __init__(self, files: list[SourceFile], cache: Cache | None, jobs: int, tick: Tick) -> None:
        self._files = files
        self._cache = cache
        self._tick = tick
        self._workforce = Workforce(jobs)
        self._run = Run()
        self._every = len(files) <= SYNTAX_CHECKED_FILES

    def stop(self) -> None:
        self._workforce.stop()

    def done(self) -> Run:
        total = len(self._files)
        candidates = 0
        # the largest first: a long file that is begun last would keep one process busy while the others wait
        for file in sorted(self._files, key=lambda file: -file.size):
            result = self._without_parsing(file)
            if result is None:
                candidates += 1
            else:
                self._take(result)
        self._tick(total - candidates, total)
        for number, (candidate, result) in enumerate(self._workforce.results(), start=1):
            self._run.parsed += 1
            self._take(result)
            if self._cache is not None:
                self._cache.store(candidate.file, result, candidate.digest, parsed=True)
            self._tick(total - candidates + number, total)
        if self._cache is not None:
            self._run.cached = self._cache.hits
            self._cache.save()
        self._run.checked = total
        self._run.results.sort(key=lambda result: result.path)
        return self._run

    def _take(self, result: FileResult) -> None:
        self._run.results.append(result)

    def _without_parsing(self, file: SourceFile) -> FileResult | None:
        """The result if it is cheap to know; None after handing the file to the workforce."""
        parsed = self._every or file.explicit
        if self._cache is not None and (hit := self._cache.unchanged(file, parsed=parsed)):
            return hit
        try:
            source = read_bytes(file.path)
        except OSError as error:
            return FileResult(file.shown, unreadable=Unreadable(error.strerror or "cannot be read"))
        if not worth_parsing(source) and not (parsed and not compiles(source)):
            result = FileResult(file.shown)
            if self._cache is not None:
                self._cache.store(file, result, None, parsed=parsed)
            return result
        digest = None
        if self._cache is not None:
            from gradlint.runner.cache import digest_of

            digest = digest_of(source)
            if hit := self._cache.same_content(file, digest):
                return hit
        self._workforce.add(Candidate(file, source, digest))
        return None


def lint_text(source: bytes, shown: str, settings: Settings) -> FileResult:
    """One source that is already in memory, such as what came through stdin."""
    if not worth_parsing(source) and compiles(source):
        return FileResult(shown)
    return lint_one(source, SourceFile(shown, shown, 0, len(source), settings, True))


def worth_parsing(source: bytes) -> bool:
    """Whether any rule could say anything: about an event, or about one of our own comments."""
    return may_hold_events(source) or b"gradlint:" in source


def compiles(source: bytes) -> bool:
    """Whether Python itself accepts the source; what it says is not repeated, the engine tells its own story."""
    import ast
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def read_bytes(path: str) -> bytes:
    """A whole file; twice as fast as `open`, which counts when thousands are read."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        chunks: list[bytes] = []
        while chunk := os.read(descriptor, os.fstat(descriptor).st_size + 4096):
            chunks.append(chunk)
        return b"".join(chunks)
    finally:
        os.close(descriptor)
