"""One run over files: cached results first, then the cheap scan, then the files worth parsing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from gradlint import documents, engine
from gradlint.config.settings import Settings
from gradlint.documents import Kind, kind_of
from gradlint.model import FileResult, Fixed, Unreadable
from gradlint.runner.cache import Cache, digest_of
from gradlint.runner.files import UNKNOWN, SourceFile, read_bytes
from gradlint.runner.processes import Candidate, Processes, fix_one, lint_one, relax_collector
from gradlint.runner.write import FixedFile, Fixes, FixPlan

if TYPE_CHECKING:
    from gradlint.runner.write import Failure, FixedFile, Fixes, FixPlan


# Up to this many files every one is parsed by Python itself, so that a broken file is told even if no rule reads it.
SYNTAX_CHECKED_FILES = 500

Tick = Callable[[int, int], None]


class Run:
    """What a run saw and did; everything in the order of the paths."""

    __slots__ = ("cached", "checked", "failures", "fixed", "parsed", "results")

    def __init__(self, results: list[FileResult] | None = None, *, checked: int = 0, parsed: int = 0) -> None:
        self.results = results or []
        self.checked = checked
        self.parsed = parsed
        self.cached = 0
        self.fixed: list[FixedFile] = []
        self.failures: list[Failure] = []


def run(
    files: Iterable[SourceFile],
    *,
    cache: Cache | None,
    jobs: int,
    tick: Tick | None = None,
    fix: FixPlan | None = None,
) -> Run:
    """Lint the files, and fix them if there is a plan for that; `tick(done, total)` is told of progress."""
    work = _Work(list(files), cache, jobs, tick or _silent, fix)
    relax_collector()
    try:
        return work.done()
    except BaseException:
        work.stop()
        raise


def _silent(done: int, total: int) -> None:
    pass


class _Work:
    def __init__(
        self, files: list[SourceFile], cache: Cache | None, jobs: int, tick: Tick, fix: FixPlan | None
    ) -> None:
        self._files = files
        self._cache = cache
        self._tick = tick
        self._fixes = None if fix is None else Fixes(fix)
        self._unsafe = None if fix is None else fix.unsafe
        self._processes = Processes(jobs, self._unsafe)
        self._run = Run()
        self._every = len(files) <= SYNTAX_CHECKED_FILES

    def stop(self) -> None:
        self._processes.stop()

    def done(self) -> Run:
        saved = self._cache
        waiting = self._wave(self._in_order())
        while waiting:  # other names of files that are fixed by now; the cache knows them only as they were
            self._cache, self._processes = None, Processes(1, self._unsafe)
            waiting = self._wave(waiting)
        if saved is not None:
            saved.save()
        self._run.checked = len(self._files)
        self._run.results.sort(key=lambda result: result.path)
        if self._fixes is not None:
            self._run.fixed = sorted(self._fixes.files, key=lambda file: file.path)
            self._run.failures = sorted(self._fixes.failures)
        return self._run

    def _in_order(self) -> list[SourceFile]:
        """The largest first: a long file that is begun last would keep one process busy while the others wait."""
        return sorted(self._files, key=lambda file: -file.stamp.size)

    def _wave(self, files: list[SourceFile]) -> list[SourceFile]:
        """Work on all files, and give back those that are the same on the disk as one that came before."""
        now, later = (files, []) if self._fixes is None else self._fixes.apart(files)
        for file in now:
            result = self._without_parsing(file)
            if result is not None:
                self._take(result)
        self._progress()
        for candidate, fixed in self._processes.results():
            self._run.parsed += 1
            self._take(self._settle(candidate, fixed))
            self._progress()
        return later

    def _take(self, result: FileResult) -> None:
        self._run.results.append(result)

    def _progress(self) -> None:
        self._tick(len(self._run.results), len(self._files))

    def _without_parsing(self, file: SourceFile) -> FileResult | None:
        """The result if it is cheap to know; None after handing the file to the processes."""
        parsed = self._every or file.explicit
        digest = None if self._cache is None else self._cache.digest(file)
        if digest is not None and (hit := self._known(file, digest, parsed)):
            return hit
        try:
            source = self._read(file)
        except OSError as error:
            return FileResult(file.shown, unreadable=Unreadable(error.strerror or "cannot be read"))
        if self._cache is not None and digest is None:
            digest = digest_of(source)
            if hit := self._known(file, digest, parsed):
                return hit
        if worth_parsing(source, file.settings, file.path) or (parsed and not sound(source, file.path)):
            self._processes.add(Candidate(file, source, digest))
            return None
        return self._remember(file, FileResult(file.shown), digest, parsed=parsed)

    def _read(self, file: SourceFile) -> bytes:
        unwritten = None if self._fixes is None else self._fixes.content(file)
        return read_bytes(file.path) if unwritten is None else unwritten

    def _known(self, file: SourceFile, digest: str, parsed: bool) -> FileResult | None:
        """What the cache says, unless it says that there is something to fix."""
        hit = None if self._cache is None else self._cache.result(file, digest, parsed=parsed)
        if hit is None or (self._unsafe is not None and fixable(hit, unsafe=self._unsafe)):
            return None
        self._run.cached += 1
        return hit

    def _settle(self, candidate: Candidate, fixed: Fixed) -> FileResult:
        """The result that holds for the file as it is now, remembered if the cache can know that file."""
        file, digest = candidate.file, candidate.digest
        if self._fixes is not None and fixed.source != candidate.source:
            if not self._fixes.take(file, candidate.source, fixed):
                return fixed.result if not self._fixes.plan.write else _as_it_is(file)
            file = file._replace(stamp=UNKNOWN)
            digest = None if self._cache is None else digest_of(fixed.source)
        return self._remember(file, fixed.result, digest, parsed=True)

    def _remember(self, file: SourceFile, result: FileResult, digest: str | None, *, parsed: bool) -> FileResult:
        if self._cache is not None and digest is not None:
            self._cache.store(file, result, digest, parsed=parsed)
        return result


def fixable(result: FileResult, *, unsafe: bool) -> bool:
    return any(finding.fixable(unsafe=unsafe) for finding in result.findings)


def _as_it_is(file: SourceFile) -> FileResult:
    """A file that could not be fixed, as whoever was faster has left it; why it was not fixed is told already."""
    try:
        return lint_text(read_bytes(file.path), file.shown, file.settings)
    except OSError:
        return FileResult(file.shown)


def run_text(source: bytes, shown: str, settings: Settings, fix: FixPlan | None) -> tuple[Run, bytes]:
    """A run over one source that is already in memory, such as what came through stdin, and the text it gave."""
    if fix is None or (not worth_parsing(source, settings, shown) and sound(source, shown)):
        return Run([lint_text(source, shown, settings)], checked=1, parsed=1), source
    from gradlint.runner.write import FixedFile

    fixed = fix_one(source, _in_memory(source, shown, settings), fix.unsafe)
    run = Run([fixed.result], checked=1, parsed=1)
    if fixed.source != source:
        run.fixed = [FixedFile(shown, source, fixed.source, fixed.applied)]
    return run, fixed.source


def lint_text(source: bytes, shown: str, settings: Settings) -> FileResult:
    """One source that is already in memory."""
    if not worth_parsing(source, settings, shown) and sound(source, shown):
        return FileResult(shown)
    return lint_one(source, _in_memory(source, shown, settings))


def _in_memory(source: bytes, shown: str, settings: Settings) -> SourceFile:
    return SourceFile(shown, shown, UNKNOWN, settings, True)


def worth_parsing(source: bytes, settings: Settings, path: str = "") -> bool:
    """Whether any rule could say anything: about an event, a number, or one of our own comments."""
    if b"torch" in source and kind_of(path) is not Kind.PYTHON:
        return True  # what else is asked of the bytes goes by the lines of a program
    return engine.worth_reading(source, settings, path) or b"gradlint:" in source


def sound(source: bytes, path: str) -> bool:
    """Whether there is no syntax error to tell of; notebooks say that cell by cell, and Markdown holds excerpts."""
    kind = kind_of(path)
    return compiles(source) if kind is Kind.PYTHON else kind is Kind.MARKDOWN


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


#: what is left of a result (of the program that it was made from) when all that is silent is gone
Keep = Callable[[FileResult, str], FileResult]


def mend(run: Run, files: Sequence[SourceFile], keep_of: Callable[[SourceFile], Keep], plan: FixPlan) -> None:
    """Fix what the results of a run still hold, and put what is left then in their place."""
    fixes = Fixes(plan)
    left = {result.path: result for result in run.results}
    waiting = [file for file in files if fixable(left[file.shown], unsafe=plan.unsafe)]
    while waiting:
        now, waiting = fixes.apart(waiting)
        for file in now:
            left[file.shown] = _mended(file, keep_of(file), fixes, left[file.shown])
    run.results = [left[result.path] for result in run.results]
    run.fixed = sorted(fixes.files, key=lambda file: file.path)
    run.failures = sorted(fixes.failures)


def _mended(file: SourceFile, keep: Keep, fixes: Fixes, before: FileResult) -> FileResult:
    unwritten = fixes.content(file)
    try:
        source = read_bytes(file.path) if unwritten is None else unwritten
    except OSError:
        return before
    fixed = documents.fix(source, file.shown, file.settings, unsafe=fixes.plan.unsafe, keep=keep)
    if fixed.source == source:
        return fixed.result
    fixes.take(file, source, fixed)
    failed = any(failure.path == file.shown for failure in fixes.failures)
    return before if failed else fixed.result


def mend_text(run: Run, source: bytes, file: SourceFile, keep: Keep, plan: FixPlan) -> bytes:
    """The same for one text in memory; gives the text as it is then."""
    (result,) = run.results
    if not fixable(result, unsafe=plan.unsafe):
        return source
    fixed: Fixed = documents.fix(source, file.shown, file.settings, unsafe=plan.unsafe, keep=keep)
    run.results = [fixed.result]
    if fixed.source != source:
        run.fixed = [FixedFile(file.shown, source, fixed.source, fixed.applied)]
    return fixed.source
