"""Where a run's words go: results to stdout or files in the chosen formats, everything else to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

import click

from gradlint.cli.formats import Target, rendered, write
from gradlint.cli.mode import Fixing, Mode
from gradlint.model import FileResult

if TYPE_CHECKING:
    from gradlint.report.paint import Paint
    from gradlint.runner.run import Run


class Output:
    """Writes results once, whole, and in a fixed order."""

    def __init__(self, targets: Sequence[Target], statistics: bool, quiet: bool) -> None:
        self._targets = targets
        self._statistics = statistics
        self._quiet = quiet
        self._stream: TextIO = sys.stdout
        self.sources: dict[str, bytes] = {}
        #: what the summary says beside the number of files
        self.asides: list[str] = []

    def results(self, run: Run, fixing: Fixing) -> None:
        """Files first: whoever reads the terminal then finds them written."""
        failures = [self._to_file(target.file, target, run, fixing) for target in self._targets if target.file]
        printed = next((target for target in self._targets if target.file is None), None)
        if printed is not None and not printed.is_text:
            self.raw(_utf8(self._told(printed, run, fixing, self._paint())))
        elif printed is not None:
            self.lines(self._told(printed, run, fixing, self._paint()))
        elif not self._quiet:
            self.lines(_summary(run, fixing, self._paint(), self.asides))
        if told := [failure for failure in failures if failure is not None]:
            raise click.ClickException("\n".join(told))

    def _to_file(self, file: str, target: Target, run: Run, fixing: Fixing) -> str | None:
        """Without colours; what went wrong, if anything."""
        from gradlint.report.paint import Paint

        return _written(file, _utf8(self._told(target, run, fixing, Paint(False))))

    def _told(self, target: Target, run: Run, fixing: Fixing, paint: Paint) -> Iterable[str]:
        if target.is_text:
            return self._text(target, run, fixing, paint)
        if fixing.mode is Mode.FIX_ONLY and target.file is None:
            return ()
        if self._statistics:
            from gradlint.report.json_format import statistics_as_json

            return (statistics_as_json(run.results),)
        from gradlint.report.reported import Report

        return rendered(target.format, Report(run.results, run.checked, self._read, self.asides))

    def diff(self, run: Run, fixing: Fixing) -> None:
        """What `--fix` would change, on stdout or in the file; how much that is, on stderr."""
        from gradlint.report.diff import painted, unified
        from gradlint.report.fixes import total

        (target,) = self._targets
        paint = self._paint()
        if target.file is not None:
            if failure := _written(target.file, b"".join(unified(file) for file in run.fixed)):
                raise click.ClickException(failure)
        elif paint.enabled or self._stream.isatty():
            self.lines(line for file in run.fixed for line in painted(file, paint))
        else:
            self.raw(b"".join(unified(file) for file in run.fixed))
        if not self._quiet and target.is_text:
            self._say(total(run.fixed, run.results, run.checked, fixing.unsafe, "Would fix"))

    def fixed_text(self, text: bytes) -> None:
        """What came through stdin, fixed, on stdout; the results then go to stderr."""
        self.raw(text)
        self._stream = sys.stderr

    def _text(self, target: Target, run: Run, fixing: Fixing, paint: Paint) -> Iterator[str]:
        if fixing.mode is not Mode.FIX_ONLY:
            yield from self._findings(target, run.results, fixing, paint)
        if fixing.show:
            from gradlint.report.fixes import enumeration

            yield from enumeration(run.fixed, paint)
        if not self._quiet:
            yield from _summary(run, fixing, paint, self.asides)

    def _findings(self, target: Target, results: list[FileResult], fixing: Fixing, paint: Paint) -> Iterator[str]:
        from gradlint.report.text import concise, full, statistics_lines

        unsafe = fixing.unsafe if fixing.mode is Mode.CHECK else None
        if self._statistics:
            yield from statistics_lines(results, paint)
        elif target.format == "concise":
            yield from concise(results, paint, unsafe=unsafe)
        else:
            yield from full(results, self._read, paint, unsafe=unsafe)

    def _paint(self) -> Paint:
        from gradlint.report.paint import Paint, wants_colour

        return Paint(wants_colour(self._stream))

    def _read(self, path: str) -> bytes | None:
        if path in self.sources:
            return self.sources[path]
        try:
            with open(path, "rb") as file:
                return file.read()
        except (OSError, ValueError):
            return None  # gone since it was linted, or never there: the finding is told without its code

    def lines(self, lines: Iterable[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            self._lost(error)

    def raw(self, content: bytes) -> None:
        """Exactly these, whatever encoding and newlines the terminal likes."""
        try:
            self._stream.flush()
            self._stream.buffer.write(content)
            self._stream.buffer.flush()
        except OSError as error:
            self._lost(error)

    def _lost(self, error: OSError) -> None:
        """A reader that has seen enough (`| head`) is no error; a full disk is."""
        # Python flushes the stream once more at exit; let that go nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        if not isinstance(error, BrokenPipeError):
            raise click.ClickException(f"the output cannot be written: {error.strerror}")

    def troubles(self, result: FileResult, *, verbose: bool) -> None:
        """What went wrong beside findings: files that cannot be read, rules that crashed."""
        if result.unreadable is not None:
            self.warn(f"{result.path}: {result.unreadable.reason}")
        for crash in result.crashes:
            self._say(f"gradlint: internal error: rule {crash.rule} failed on {result.path}: {crash.error}")
            if verbose and crash.traceback:
                self._say(crash.traceback)
        if verbose:
            for note in (*result.exhausted, *result.notes):
                self.note(f"{result.path}: {note}")

    def error(self, message: str) -> None:
        self._say(f"gradlint: error: {message}")

    def warn(self, message: str) -> None:
        self._say(f"gradlint: warning: {message}")

    def note(self, message: str) -> None:
        self._say(f"gradlint: {message}")

    def _say(self, message: str) -> None:
        from gradlint.report.paths import harmless_lines

        print(harmless_lines(message), file=sys.stderr)


def _utf8(lines: Iterable[str]) -> bytes:
    """As programs expect it, whatever this machine's own encoding is."""
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")


def _written(file: str, content: bytes) -> str | None:
    """What went wrong, if anything."""
    try:
        write(file, content)
    except OSError as error:
        return f"{file} cannot be written: {error.strerror or error}"
    return None


def _summary(run: Run, fixing: Fixing, paint: Paint, asides: Sequence[str]) -> Iterator[str]:
    from gradlint.report.fixes import hint, hint_after, total
    from gradlint.report.text import summary

    if fixing.mode is Mode.FIX_ONLY:
        yield total(run.fixed, run.results, run.checked, fixing.unsafe, "Fixed")
        return
    fixed = [finding for file in run.fixed for finding in file.applied]
    yield summary(run.results, run.checked, paint, fixed, asides=asides)
    checking = fixing.mode is Mode.CHECK
    more = hint(run.results, fixing.unsafe, paint) if checking else hint_after(run.results, fixing.unsafe)
    if more is not None:
        yield more
