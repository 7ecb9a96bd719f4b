"""Fixes only those findings of a run that were let through, file by file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradlint import documents
from gradlint.model import FileResult, Fixed
from gradlint.runner.files import SourceFile, read_bytes
from gradlint.runner.mending import FixedFile, FixPlan, Mender
from gradlint.runner.run import Run, fixable

#: what is left of a result (of the program that it was made from) when all that is silent is gone
Keep = Callable[[FileResult, str], FileResult]


def mend(run: Run, files: Sequence[SourceFile], keep_of: Callable[[SourceFile], Keep], plan: FixPlan) -> None:
    """Fix what the results of a run still hold, and put what is left then in their place."""
    mender = Mender(plan)
    left = {result.path: result for result in run.results}
    waiting = [file for file in files if fixable(left[file.shown], unsafe=plan.unsafe)]
    while waiting:
        now, waiting = mender.apart(waiting)
        for file in now:
            left[file.shown] = _mended(file, keep_of(file), mender, left[file.shown])
    run.results = [left[result.path] for result in run.results]
    run.fixed = sorted(mender.files, key=lambda file: file.path)
    run.failures = sorted(mender.failures)


def _mended(file: SourceFile, keep: Keep, mender: Mender, before: FileResult) -> FileResult:
    unwritten = mender.content(file)
    try:
        source = read_bytes(file.path) if unwritten is None else unwritten
    except OSError:
        return before
    fixed = documents.fix(source, file.shown, file.settings, unsafe=mender.plan.unsafe, keep=keep)
    if fixed.source == source:
        return fixed.result
    mender.take(file, source, fixed)
    failed = any(failure.path == file.shown for failure in mender.failures)
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
