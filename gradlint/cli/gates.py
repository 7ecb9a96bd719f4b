"""What stands between findings and the user: the baseline, and the lines that have changed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from gradlint import documents
from gradlint.baseline import Baseline, Entry, read_baseline, without
from gradlint.config.reading import ConfigError
from gradlint.config.settings import Settings
from gradlint.model import counted
from gradlint.runner.changes import Changes, ChangesError, Touched
from gradlint.runner.files import UNKNOWN, SourceFile, shown_path
from gradlint.runner.ledger import Disputed
from gradlint.runner.run import mend, mend_text

if TYPE_CHECKING:
    from gradlint.cli.output import Output
    from gradlint.cli.request import Request
    from gradlint.model import FileResult
    from gradlint.runner.ledger import Keep
    from gradlint.runner.run import Run
    from gradlint.runner.write import FixPlan

_SHOWN = 10  # entries that are gone; a long list helps nobody


class Gates:
    """The gates of one run; what they hold back is counted in `asides`, for the summary."""

    def __init__(self, choice: Request, output: Output) -> None:
        self._choice = choice
        self._output = output
        self._changes: Changes | None = None
        self._known: dict[str, frozenset[str]] = {}
        self._touched: dict[str, Touched] = {}
        self._gone: list[tuple[Baseline, list[Entry]]] = []
        self._disputed: dict[str, Disputed] = {}
        self.asides: list[str] = []
        self._asked = choice.paths or (".",)

    def admitted(self, files: list[SourceFile], base: str) -> list[SourceFile]:
        """The files that are worth a look: those that have changed since this revision."""
        with _git_asked():
            self._changes = Changes(base)
            admitted = [file for file in files if self._changes.of(file.path) is not None]
        for warning in self._changes.warnings:
            self._output.warn(warning)
        return admitted

    def sift(self, run: Run, files: Sequence[SourceFile], plan: FixPlan | None) -> bytes | None:
        """Take what is silent out of the results, and fix what is left if that is the plan.

        Gives the fixed text of a file that is in memory only.
        """
        by_name = {file.shown: file for file in files}
        self._sift_known(run, by_name)
        with _git_asked():
            self._sift_untouched(run, by_name)
            return None if plan is None else self._mend(run, files, plan)

    def sift_again(self, run: Run, files: Sequence[SourceFile]) -> None:
        """The same once fixes are written; which entries of the baseline met nothing is known from before."""
        gone, self._gone = self._gone, []
        self.asides.clear()
        self.sift(run, files, None)
        self._gone = gone

    def _mend(self, run: Run, files: Sequence[SourceFile], plan: FixPlan) -> bytes | None:
        told = {result.path: result for result in run.results}
        for path, alone in run.disputed.items():
            self._disputed[path] = Disputed.of(alone, told[path], self._text(path), unsafe=plan.unsafe)
        if sources := self._output.sources:
            (file,) = files
            return mend_text(run, sources[file.shown], file, self._keep(file), plan)
        mend(run, files, self._keep, plan)
        return None

    def _sift_known(self, run: Run, files: Mapping[str, SourceFile]) -> None:
        silenced = 0
        names = {name: self._choice.baseline_of(file.settings) for name, file in files.items()}
        # what touches a file that was asked for may stand in one that was not: the first one's baseline silences it
        first = next(iter(names.values()), None)
        results = {result.path: result for result in run.results}
        for name in sorted({name for name in names.values() if name is not None}):
            baseline = _opened(name)
            mine = [result for result in run.results if names.get(result.path, first) == name]
            sifted = baseline.sift(mine, self._text, lambda code, path: _is_on(code, files.get(path)), self._asked)
            results |= {result.path: result for result in sifted.results}
            self._known |= sifted.known
            silenced += sum(len(result.findings) for result in mine) - sum(len(r.findings) for r in sifted.results)
            if sifted.gone:
                self._gone.append((baseline, sifted.gone))
        run.results = [results[result.path] for result in run.results]
        if silenced:
            self.asides.append(f"{silenced} silenced by the baseline")

    def _sift_untouched(self, run: Run, files: Mapping[str, SourceFile]) -> None:
        if self._changes is None:
            return
        left, outside = [], 0
        for result in run.results:
            text = self._text(result.path) if result.findings else None
            if text is not None:
                file = files.get(result.path) or SourceFile(
                    result.path, os.path.abspath(result.path), UNKNOWN, Settings(), False
                )
                self._touched[result.path] = Touched(file, text, self._changes)
                kept = self._touched[result.path].keep(result, text)
                outside += len(result.findings) - len(kept.findings)
                result = kept
            left.append(result)
        run.results = left
        if outside:
            self.asides.append(f"{outside} outside the changes")

    def _keep(self, file: SourceFile) -> Keep:
        """The same gates for a text that fixes have changed."""
        known, touched = self._known.get(file.shown), self._touched.get(file.shown)
        disputed = self._disputed.get(file.shown)

        def keep(result: FileResult, text: str) -> FileResult:
            if known:
                result = without(result, text, known)
            if disputed is not None:
                result = disputed.without(result, text)
            return result if touched is None else touched.keep(result, text)

        return keep

    def _text(self, path: str) -> str | None:
        source = self._output.read(path)
        return None if source is None else documents.program_text(source, path)

    def tell_gone(self) -> None:
        """Entries of a baseline that nothing stands for any more."""
        output, paths = self._output, self._choice.paths
        for baseline, entries in self._gone:
            name = shown_path(baseline.file)
            many = "1 finding of" if len(entries) == 1 else f"{len(entries)} findings of"
            output.note(f"{many} {name} {'is' if len(entries) == 1 else 'are'} gone:")
            for entry in entries[:_SHOWN]:
                output.note(f"  {entry}")
            if len(entries) > _SHOWN:
                output.note(f"  and {len(entries) - _SHOWN} more")
            again = shlex.join(["gradlint", "check", *(paths if len(paths) <= 3 else ()), "--write-baseline", name])
            output.note(f"`{again}` brings it up to date")

    def write(self, file: str, run: Run, files: Sequence[SourceFile]) -> str:
        """Make all findings of a run known; says what was done."""
        by_name = {found.shown: found for found in files}
        old = _opened(file) if os.path.lexists(file) else Baseline(file)
        new = old.renewed(run.results, self._text, lambda code, path: _is_on(code, by_name.get(path)), self._asked)
        new.write()
        return f"Wrote {counted(len(new.entries), 'finding')} to {shown_path(new.file)}"


@contextmanager
def _git_asked() -> Iterator[None]:
    """What git cannot tell is the user's to mend: a wrong revision, a history that is not there."""
    try:
        yield
    except ChangesError as error:
        raise click.UsageError(f"--diff-base: {error}.") from None


def _is_on(code: str, file: SourceFile | None) -> bool:
    """Of a file that was not asked for, not all is told: an entry that was not met may still be right."""
    return file is not None and code in file.settings.enabled_for(file.shown)


def _opened(file: str) -> Baseline:
    try:
        return read_baseline(file)
    except ConfigError as error:
        hint = "" if os.path.lexists(file) else f"; `gradlint check --write-baseline {shown_path(file)}` makes it"
        raise ConfigError(f"{error}{hint}") from None
