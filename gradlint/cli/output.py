"""Where a run's words go: results to stdout in the chosen format, everything else to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from gradlint.model import FileResult


class Output:
    """Writes results once, whole, and in a fixed order."""

    def __init__(self, output_format: str, statistics: bool, quiet: bool) -> None:
        self._format = output_format
        self._statistics = statistics
        self._quiet = quiet
        self.sources: dict[str, bytes] = {}

    def results(self, results: Sequence[FileResult], checked: int) -> None:
        if self._format == "json":
            self.lines([self._json(results)])
        else:
            self.lines(self._text(results, checked))

    def _json(self, results: Sequence[FileResult]) -> str:
        from gradlint.report.json_format import as_json, statistics_as_json

        return statistics_as_json(results) if self._statistics else as_json(results)

    def _text(self, results: Sequence[FileResult], checked: int) -> Iterable[str]:
        from gradlint.report.paint import Paint, wants_colour
        from gradlint.report.text import concise, full, statistics_lines, summary

        paint = Paint(wants_colour(sys.stdout))
        if self._statistics:
            yield from statistics_lines(results, paint)
        elif self._format == "concise":
            yield from concise(results, paint)
        else:
            yield from full(results, self._read, paint)
        if not self._quiet:
            yield summary(results, checked, paint)

    def _read(self, path: str) -> bytes | None:
        if path in self.sources:
            return self.sources[path]
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            return None  # gone since it was linted: the finding is told without its code

    def lines(self, lines: Iterable[str]) -> None:
        """A reader that has seen enough (`| head`) is no error."""
        try:
            text = "".join(f"{line}\n" for line in lines)
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes stdout once more at exit; let that go nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def troubles(self, result: FileResult, *, verbose: bool) -> None:
        """What went wrong beside findings: files that cannot be read, rules that crashed."""
        if result.unreadable is not None:
            self.warn(f"{result.path}: {result.unreadable.reason}")
        for crash in result.crashes:
            self._say(f"gradlint: internal error: rule {crash.rule} failed on {result.path}: {crash.error}")
            if verbose and crash.traceback:
                self._say(crash.traceback)
        if verbose:
            for note in result.notes:
                self.note(f"{result.path}: {note}")

    def warn(self, message: str) -> None:
        self._say(f"gradlint: warning: {message}")

    def note(self, message: str) -> None:
        self._say(f"gradlint: {message}")

    def _say(self, message: str) -> None:
        print(message, file=sys.stderr)
