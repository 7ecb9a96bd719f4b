"""One run over files: cached results first, then the cheap look at their bytes, then the files worth parsing."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradlint import documents, engine
from gradlint.config.settings import Settings
from gradlint.documents import Kind, kind_of
from gradlint.model import FileResult, Fixed, RuleCrash, Unreadable
from gradlint.python.roots import overlaid, root_of, steady
from gradlint.python.source import parses
from gradlint.runner.files import UNKNOWN, SourceFile, read_bytes
from gradlint.runner.ledger import Analysed, Keep, Ledger, crosses
from gradlint.runner.write import Failure, FixedFile, Fixes, FixPlan

if TYPE_CHECKING:
    from gradlint.python.project import Project
    from gradlint.runner.cache import Cache
    from gradlint.runner.importers import Importers

# Up to this many files every one is parsed by Python itself, so that a broken file is told even if no rule reads it.
SYNTAX_CHECKED_FILES = 500
# Below this, starting processes (each imports the parser) takes longer than the work itself.
_WORTH_FILES = 24
_WORTH_BYTES = 150_000
# What a process is handed at a time: so little that none has much left to do when the others are done.
_BATCH_BYTES = 500_000

Tick = Callable[[int, int], None]


class Run:
    """What a run saw and did; everything in the order of the paths."""

    __slots__ = ("around", "cached", "checked", "disputed", "failures", "fixed", "parsed", "results")

    def __init__(self, results: list[FileResult] | None = None, *, checked: int = 0, parsed: int = 0) -> None:
        self.results = results or []
        self.checked = checked
        self.parsed = parsed
        self.cached = 0
        self.fixed: list[FixedFile] = []
        self.failures: list[Failure] = []
        #: the files, those that are not there as well, that were asked for what they know of these
        self.around: frozenset[str] = frozenset()
        #: what analyses of files alone would mend and callers in other files would not, by the path of the result
        self.disputed: dict[str, FileResult] = {}


class Asked(NamedTuple):
    """A file to look at."""

    file: SourceFile
    #: whether Python itself has to accept what no rule has anything to say about
    checked: bool
    #: the digest of the content of which the result is known
    known: str | None = None
    #: what the file would hold by now, had it been written
    source: bytes | None = None


class Candidate(NamedTuple):
    """A file that may hold findings, with the content that was read."""

    file: SourceFile
    source: bytes
    digest: str | None


class Outcome(NamedTuple):
    """What became of a file: plain data, which comes back from another process."""

    #: None if the content is the one that was known
    result: FileResult | None
    digest: str | None = None
    #: whether rules have read it
    parsed: bool = False
    #: the content, and what fixing has made of it, if that is another one
    before: bytes = b""
    fixed: Fixed | None = None


class Task(NamedTuple):
    """What is done with each file; plain, too."""

    #: None to lint only; else files are fixed as well, with or without the unsafe fixes
    unsafe: bool | None = None
    #: what names a content, if that is to be remembered
    digest: Callable[[bytes], str] | None = None

    def look(self, asked: Asked) -> Outcome | Candidate:
        """What is cheap to know."""
        file = asked.file
        try:
            source = read_bytes(file.path) if asked.source is None else asked.source
        except OSError as error:
            return Outcome(FileResult(file.shown, unreadable=Unreadable(error.strerror or "cannot be read")))
        digest = None if self.digest is None else self.digest(source)
        if digest is not None and digest == asked.known:
            return Outcome(None, digest)
        project = engine.project_of(file.path, file.settings)
        if worth_parsing(source, file.settings, file.path, project) or (asked.checked and not sound(source, file.path)):
            return Candidate(file, source, digest)
        if project is None:
            return Outcome(FileResult(file.shown), digest)
        probes, exhausted = tuple(project.probes.items()), tuple(project.exhausted)
        return Outcome(FileResult(file.shown, probes=probes, exhausted=exhausted), digest)

    def work(self, asked: Asked | Candidate) -> Outcome:
        """All that there is to do; nothing is written here."""
        looked = asked if isinstance(asked, Candidate) else self.look(asked)
        if isinstance(looked, Outcome):
            return looked
        file, source, digest = looked
        if self.unsafe is None:
            return Outcome(lint_one(source, file), digest, parsed=True)
        fixed = fix_one(source, file, self.unsafe)
        if fixed.source == source:
            return Outcome(fixed.result, digest, parsed=True)
        return Outcome(fixed.result, self.digest and self.digest(fixed.source), True, source, fixed)


def run(
    files: Iterable[SourceFile],
    *,
    cache: Cache | None,
    jobs: int,
    tick: Tick | None = None,
    fix: FixPlan | None = None,
    importers: Importers | None = None,
) -> Run:
    """Lint the files, and fix them if there is a plan for that; `tick(done, total)` is told of progress.

    What `importers` finds is linted for what it knows of the others, and not told of itself.
    """
    relax_collector()
    root_of.cache_clear()  # whoever watches files runs again and again
    work = _Work(list(files), cache, jobs, tick or _silent, fix, importers)
    if fix is not None:
        return work.done()
    with steady():
        return work.done()


def _silent(done: int, total: int) -> None:
    pass


class _Work:
    def __init__(
        self, files: list[SourceFile], cache: Cache | None, jobs: int, tick: Tick, fix: FixPlan | None,
        importers: Importers | None = None,
    ) -> None:  # fmt: skip
        self._files = files
        self._importers = importers
        self._cache = cache
        self._jobs = jobs
        self._tick = tick
        self._fixes = None if fix is None else Fixes(fix)
        self._task = Task(None if fix is None else fix.unsafe, None if cache is None else cache.digest_of)
        self._run = Run()
        self._analysed: list[Analysed] = []
        self._every = len(files) <= SYNTAX_CHECKED_FILES

    def done(self) -> Run:
        saved = self._cache
        waiting = self._wave(self._files)
        while waiting:  # other names of files that are fixed by now; the cache knows them only as they were
            self._cache, self._jobs = None, 1
            waiting = self._wave(waiting)
        self._run.checked = len(self._files)
        if self._importers is not None:
            self._analysed += self._others(saved, self._importers.of(self._files))
        self._run.results = self._settled(saved)
        around = {path for one in self._analysed for path, _ in one.result.probes}
        around.update(one.file.path for one in self._analysed)
        self._run.around = frozenset(around.difference(file.path for file in self._files))
        if saved is not None:
            saved.save()
        if self._fixes is not None:
            self._run.fixed = sorted(self._fixes.files, key=lambda file: file.path)
            self._run.failures = sorted(self._fixes.failures)
        return self._run

    def _wave(self, files: list[SourceFile]) -> list[SourceFile]:
        """Work on all files, and give back those that are the same on the disk as one that came before."""
        now, later = (files, []) if self._fixes is None else self._fixes.apart(files)
        kept: dict[str, FileResult] = {}
        asked = [one for file in now if (one := self._asked(file, kept)) is not None]
        self._progress()
        for (file, *_), outcome in self._outcomes(asked):
            self._run.parsed += outcome.parsed
            self._add(file, self._settle(file, outcome, kept))
            self._progress()
        return later

    def _others(self, cache: Cache | None, files: list[SourceFile]) -> list[Analysed]:
        """What other files know; they are never fixed."""
        work = _Work(files, cache, self._jobs, _silent, None)
        work._wave(files)
        return work._analysed

    def _settled(self, cache: Cache | None) -> list[FileResult]:
        """All results, with what the files know of each other."""
        if self._importers is None or not any(crosses(one.result) for one in self._analysed):
            asked = {file.path for file in self._files}
            own = (one.result for one in self._analysed if one.file.path in asked)
            return sorted(own, key=lambda result: result.path)
        ledger = Ledger(self._analysed, self._importers.counts)
        near = ledger.near(self._files)
        if near:  # what is told of a file that was not asked for is what would be told if it were
            known = {one.file.path for one in self._analysed}
            sites = self._importers.sites(near)
            more = [file for file in (*sites, *self._importers.of(sites)) if file.path not in known]
            self._analysed += self._others(cache, more)
            ledger = Ledger(self._analysed, self._importers.counts)
        settled = ledger.settled(self._files, near)
        self._run.disputed = ledger.disputed(settled)
        return settled

    def _add(self, file: SourceFile, result: FileResult) -> None:
        self._analysed.append(Analysed(file, result))

    def _progress(self) -> None:
        self._tick(len(self._analysed), len(self._files))

    def _asked(self, file: SourceFile, kept: dict[str, FileResult]) -> Asked | None:
        """None for a file that is untouched, so that what the cache says holds."""
        checked = self._every or file.explicit
        source = None if self._fixes is None else self._fixes.content(file)
        found = None if self._cache is None else self._cache.find(file, parsed=checked)
        if found is None or self._cache is None or self._to_fix(found.result):
            return Asked(file, checked, None, source)
        if self._cache.untouched(file):
            self._run.cached += 1
            self._add(file, found.result)
            return None
        kept[file.path] = found.result
        return Asked(file, checked, found.digest, source)

    def _to_fix(self, result: FileResult) -> bool:
        return self._task.unsafe is not None and fixable(result, unsafe=self._task.unsafe)

    def _outcomes(self, files: list[Asked]) -> Iterator[tuple[Asked | Candidate, Outcome]]:
        """Of every file. They are looked at here, the largest first, until so many have to be parsed that it is worth
        while to share out those, and all others as they are."""
        files = sorted(files, key=lambda asked: asked.file.stamp.size)
        waiting: list[Candidate] = []
        size = 0
        while files and not self._enough(len(waiting), size):
            asked = files.pop()
            looked = self._task.look(asked)
            if isinstance(looked, Outcome):
                yield asked, looked
            elif self._jobs == 1:
                yield looked, self._task.work(looked)
            else:
                waiting.append(looked)
                size += len(looked.source)
        if not self._enough(len(waiting), size):
            for candidate in waiting:
                yield candidate, self._task.work(candidate)
            return
        from gradlint.runner.processes import share_out

        batches: list[Sequence[Asked | Candidate]] = [
            *([candidate] for candidate in waiting),
            *_batches(reversed(files)),
        ]
        yield from share_out(self._task.work, batches, self._jobs, _failed)

    def _enough(self, count: int, size: int) -> bool:
        return self._jobs > 1 and count > 1 and (count > _WORTH_FILES or size > _WORTH_BYTES)

    def _settle(self, file: SourceFile, outcome: Outcome, kept: dict[str, FileResult]) -> FileResult:
        """The result that holds for the file as it is now, remembered if the cache can know that file."""
        result = outcome.result
        if result is None:
            if self._cache is not None:
                self._cache.touch(file)
            self._run.cached += 1
            return kept[file.path]
        if self._fixes is not None and outcome.fixed is not None:
            if not self._fixes.take(file, outcome.before, outcome.fixed):
                return result if not self._fixes.plan.write else _as_it_is(file)
            file = file._replace(stamp=UNKNOWN)
        if self._cache is not None and outcome.digest is not None:
            parsed = outcome.parsed or self._every or file.explicit
            self._cache.store(file, result, outcome.digest, parsed=parsed)
        return result


def _batches(files: Iterable[Asked]) -> Iterator[list[Asked]]:
    """Files of one folder at a time, those folders first in which there is most to do."""
    folders: dict[str, list[Asked]] = {}
    for asked in files:
        folders.setdefault(os.path.dirname(asked.file.path), []).append(asked)
    for inside in sorted(folders.values(), key=_size, reverse=True):
        batch: list[Asked] = []
        for asked in inside:
            batch.append(asked)
            if _size(batch) > _BATCH_BYTES:
                yield batch
                batch = []
        if batch:
            yield batch


def _size(files: Iterable[Asked]) -> int:
    return sum(asked.file.stamp.size for asked in files)


def _failed(asked: Asked | Candidate, reason: str) -> Outcome:
    crash = RuleCrash("engine", reason, "")
    return Outcome(FileResult(asked.file.shown, crashes=(crash,)), parsed=True)


def lint_one(source: bytes, file: SourceFile) -> FileResult:
    try:
        return documents.lint(source, file.shown, file.settings)
    except Exception as error:
        return _raised(file, error)


def fix_one(source: bytes, file: SourceFile, unsafe: bool, keep: Keep | None = None) -> Fixed:
    """The same with all fixes applied; nothing is written here. `keep` chooses the findings that count."""
    try:
        return documents.fix(source, file.shown, file.settings, unsafe=unsafe, keep=keep)
    except Exception as error:
        return Fixed(source, (), _raised(file, error))


def _raised(file: SourceFile, error: Exception) -> FileResult:
    """The engine promises not to raise; should it ever, one file is lost and not the run."""
    return FileResult(file.shown, crashes=(RuleCrash.of("engine", error),))


def default_jobs() -> int:
    """The processors this process may use."""
    count: Callable[[], int | None] | None = getattr(os, "process_cpu_count", None)
    if count is not None:
        return count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def relax_collector() -> None:
    """What is read is let go when a file is done, and what is kept of it is no garbage: look for cycles after 1,500,000
    new objects, not after 700."""
    gc.set_threshold(1_500_000, 20, 50)


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
    if fix is None or (
        not worth_parsing(source, settings, shown, engine.project_of(shown, settings)) and sound(source, shown)
    ):
        return Run([lint_text(source, shown, settings)], checked=1, parsed=1), source
    fixed = fix_one(source, _in_memory(source, shown, settings), fix.unsafe)
    run = Run([fixed.result], checked=1, parsed=1)
    if fixed.source != source:
        run.fixed = [FixedFile(shown, source, fixed.source, fixed.mended)]
    return run, fixed.source


def settle_text(run: Run, source: bytes, file: SourceFile, importers: Importers, cache: Cache | None) -> None:
    """Put what the files that import a text know of it into the result of a run over it."""
    with overlaid({file.path: source}):
        others = _Work([], cache, 1, _silent, None)._others(cache, importers.of([file]))
        if cache is not None:
            cache.save()
        (result,) = run.results
        ledger = Ledger([Analysed(file, result), *others], importers.counts)
        run.results = ledger.settled([file], frozenset())
        run.disputed = ledger.disputed(run.results)


def lint_text(source: bytes, shown: str, settings: Settings) -> FileResult:
    """One source that is already in memory."""
    if not worth_parsing(source, settings, shown, engine.project_of(shown, settings)) and sound(source, shown):
        return FileResult(shown)
    return lint_one(source, _in_memory(source, shown, settings))


def _in_memory(source: bytes, shown: str, settings: Settings) -> SourceFile:
    return SourceFile(shown, shown, UNKNOWN, settings, True)


def worth_parsing(source: bytes, settings: Settings, path: str = "", project: Project | None = None) -> bool:
    """Whether any rule could say anything: about an event, a number, or one of our own comments."""
    if b"torch" in source and kind_of(path) is not Kind.PYTHON:
        return True  # what else is asked of the bytes goes by the lines of a program
    return engine.worth_reading(source, settings, path, project) or b"gradlint:" in source


def sound(source: bytes, path: str) -> bool:
    """Whether there is no syntax error to tell of; notebooks say that cell by cell, and Markdown holds excerpts."""
    kind = kind_of(path)
    return parses(source) if kind is Kind.PYTHON else kind is Kind.MARKDOWN


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
    fixed = fix_one(source, file, fixes.plan.unsafe, keep)
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
    fixed = fix_one(source, file, plan.unsafe, keep)
    run.results = [fixed.result]
    if fixed.source != source:
        run.fixed = [FixedFile(file.shown, source, fixed.source, fixed.mended)]
    return fixed.source
