"""Where a run's words go: results to stdout or files in the chosen formats, everything else to stderr."""

from __future__ import annotations

import importlib
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, TextIO

import click

from gradlint.cli.request import Fixing, Mode
from gradlint.config.reading import folders_up, unknown
from gradlint.config.schema import FOR_PEOPLE, FORMATS
from gradlint.model import FileResult
from gradlint.report.paths import harmless_lines
from gradlint.report.text import (
    Paint,
    concise,
    enumeration,
    full,
    grouped,
    hint,
    hint_after,
    statistics_lines,
    summary,
    total,
    wants_colour,
)
from gradlint.runner.write import write_whole

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from gradlint.report.document import Report
    from gradlint.report.text import Paint
    from gradlint.runner.files import SourceFile
    from gradlint.runner.run import Run

#: those that `--statistics` can be told in
COUNTED = (*FOR_PEOPLE, "json")

_SOURCES = (".py", ".pyi", ".ipynb")

OPTION = "--output-format"
HELP = (
    f"How to tell the findings; give it again to write other formats to files. {', '.join(FORMATS)}.  [default: full]"
)
STDOUT = "-"

#: seconds until a run is told to go on, and between two words of it
_PATIENCE, _TICK = 1.0, 0.1
#: so many files take long: the first word comes at once
_MANY = 2000
#: how many files are found between two looks at the clock
_SELDOM = 50


class Target(NamedTuple):
    """A format, and the file it is for; None for stdout."""

    format: str
    file: str | None = None

    @property
    def is_text(self) -> bool:
        return self.format in FOR_PEOPLE


if TYPE_CHECKING:
    _Type = click.ParamType[Target]
else:  # older versions of click have no brackets here
    _Type = click.ParamType


class FormatType(_Type):
    """`FORMAT` or `FORMAT=FILE`"""

    name = "format"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        if isinstance(value, Target):
            return value
        name, named, file = str(value).partition("=")
        if name not in FORMATS:
            raise unknown("format", name, FORMATS, where=OPTION)
        if named and not file:
            raise click.UsageError(f"{OPTION} {value}: the name of the file is missing.")
        return Target(name, file if named else None)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        name, named, file = incomplete.partition("=")
        if named:
            return [CompletionItem(file, type="file")]
        return [CompletionItem(known) for known in FORMATS if known.startswith(name)]


def targets(
    given: Sequence[Target], output_file: str | None, *, statistics: bool = False, diff: bool = False
) -> tuple[Target, ...]:
    """What is to be written where; a usage error if two would be written to the same place."""
    asked = tuple(dict.fromkeys(given)) or (Target("full"),)
    if diff and any(target.file not in (None, STDOUT) for target in asked):
        raise click.UsageError(f"--diff and {OPTION} FORMAT=FILE cannot be used together.")
    if statistics:
        _refuse_uncounted(asked)
    open_ended = [target for target in asked if target.file is None]
    if output_file is not None and not open_ended:
        raise click.UsageError(f"--output-file: nothing is left to write; every {OPTION} names its own file.")
    found = tuple(_placed(target, output_file) for target in asked)
    _refuse_clashes(found)
    for target in found:
        if target.file is not None:
            refuse_unwritable(target.file)
    return found


def _placed(target: Target, output_file: str | None) -> Target:
    file = output_file if target.file is None else target.file
    return target._replace(file=None if file == STDOUT else file)


def _refuse_uncounted(asked: Iterable[Target]) -> None:
    for target in asked:
        if target.format not in COUNTED:
            known = f"{', '.join(COUNTED[:-1])} or {COUNTED[-1]}"
            raise click.UsageError(f"--statistics cannot be told as {target.format}; choose {known}.")


def _refuse_clashes(found: Iterable[Target]) -> None:
    seen: dict[str | None, str] = {}
    for target in found:
        place = None if target.file is None else os.path.realpath(target.file)
        if place in seen:
            both = f"{seen[place]} and {target.format}"
            if place is None:
                hint = f"write one to a file: {OPTION} {target.format}=FILE"
                raise click.UsageError(f"{both} would both be printed; {hint}.")
            raise click.UsageError(f"{both} would both be written to {target.file}.")
        seen[place] = target.format


def refuse_unwritable(file: str) -> None:
    """Says before the work begins what can be known then; folders that are missing will be made."""
    if not file:
        raise click.UsageError("--output-file: the name of the file is missing.")
    if os.path.isdir(file):
        raise click.UsageError(f"{file} cannot be written: it is a folder.")
    if os.path.exists(file):
        if file.lower().endswith(_SOURCES):
            raise click.UsageError(f"{file} cannot be written: it is a source file, and the report would replace it.")
        if not os.access(file, os.W_OK):
            raise click.UsageError(f"{file} cannot be written: it is read-only.")
        return
    above = os.path.dirname(os.path.abspath(file))
    folder = next(filter(os.path.lexists, folders_up(above)), above)
    if not os.path.isdir(folder):
        raise click.UsageError(f"{file} cannot be written: {folder} is not a folder.")
    if not os.access(folder, os.W_OK):
        raise click.UsageError(f"{file} cannot be written: {folder} is read-only.")


def write(file: str, content: bytes) -> None:
    """The whole file or nothing of it; its folder is made if need be. OSError if that fails."""
    if os.path.exists(file) and not os.path.isfile(file):  # /dev/stderr, a pipe: nothing to replace
        with open(file, "wb") as stream:
            stream.write(content)
        return
    path = os.path.realpath(file)  # a link stays, and leads to the new text
    os.makedirs(os.path.dirname(path), exist_ok=True)
    mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else None
    write_whole(path, content)
    if mode is not None:
        os.chmod(path, mode)


def rendered(name: str, report: Report) -> Iterable[str]:
    """The lines of a format for programs, whose module is imported when it is asked for."""
    module = importlib.import_module(f"gradlint.report.{'json' if name == 'jsonl' else name}")
    make: Callable[[Report], Iterable[str]] = getattr(module, f"as_{name}")
    return make(report)


class Progress:
    """One line on a terminal: told how many files were found, then called with (done, total).

    It appears when a run takes long, or is going to. No thread draws it: processes are forked meanwhile.
    """

    def __init__(self, *, enabled: bool | None = None) -> None:
        self._enabled = sys.stderr.isatty() if enabled is None else enabled
        self._begun = time.monotonic()
        self._drawn = 0.0
        self._width = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._width:
            self._write("")

    def found(self, files: Iterable[SourceFile]) -> Iterator[SourceFile]:
        """The files as they are found, which takes its time on a slow disk."""
        for count, file in enumerate(files, start=1):
            yield file
            if self._enabled and count % _SELDOM == 0:
                self._draw(f"Finding files: {count:,}", many=count >= _MANY)

    def __call__(self, done: int, total: int) -> None:
        if self._enabled:
            self._draw(f"Checking: {done:,} of {total:,} files", many=total >= _MANY, now=done == 0)

    def _draw(self, text: str, *, many: bool, now: bool = False) -> None:
        clock = time.monotonic()
        if now or clock - self._drawn > _TICK:
            if many or self._width or clock - self._begun > _PATIENCE:
                self._drawn = clock
                self._write(f"{text}, {clock - self._begun:.0f} s")

    def _write(self, text: str) -> None:
        """Over what was there; a terminal may not know more than the carriage return."""
        try:
            sys.stderr.write(f"\r{text:<{self._width}}" if text else f"\r{' ' * self._width}\r")
            sys.stderr.flush()
        except OSError:
            self._enabled = False
        self._width = len(text)


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
        named = ((target.file, target) for target in self._targets if target.file)
        failures = [_written(file, _utf8(self._told(target, run, fixing, Paint(False)))) for file, target in named]
        printed = next((target for target in self._targets if target.file is None), None)
        if printed is not None and not printed.is_text:
            self.raw(_utf8(self._told(printed, run, fixing, self._paint())))
        elif printed is not None:
            self.lines(self._told(printed, run, fixing, self._paint()))
        elif not self._quiet:
            self.lines(_summary(run, fixing, self._paint(), self.asides))
        if told := [failure for failure in failures if failure is not None]:
            raise click.ClickException("\n".join(told))

    def _told(self, target: Target, run: Run, fixing: Fixing, paint: Paint) -> Iterable[str]:
        if target.is_text:
            return self._text(target, run, fixing, paint)
        if fixing.mode is Mode.FIX_ONLY and target.file is None:
            return ()
        if self._statistics:
            from gradlint.report.json import statistics_as_json

            return (statistics_as_json(run.results, fixing.unsafe),)
        from gradlint.report.document import Report

        return rendered(target.format, Report(run.results, run.checked, self.read, self.asides))

    def diff(self, run: Run, fixing: Fixing) -> None:
        """What `--fix` would change, on stdout or in the file; how much that is, on stderr."""
        from gradlint.report.diff import painted, unified

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
            yield from enumeration(run.fixed, paint)
        if not self._quiet:
            yield from _summary(run, fixing, paint, self.asides)

    def _findings(self, target: Target, results: list[FileResult], fixing: Fixing, paint: Paint) -> Iterator[str]:
        unsafe = fixing.unsafe if fixing.mode is Mode.CHECK else None
        if self._statistics:
            yield from statistics_lines(results, paint, fixing.unsafe)
        elif target.format == "concise":
            yield from concise(results, paint, unsafe=unsafe)
        elif target.format == "grouped":
            yield from grouped(results, paint, unsafe=unsafe)
        else:
            yield from full(results, self.read, paint, unsafe=unsafe)

    def _paint(self) -> Paint:
        return Paint(wants_colour(self._stream))

    def read(self, path: str) -> bytes | None:
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
    if fixing.mode is Mode.FIX_ONLY:
        yield total(run.fixed, run.results, run.checked, fixing.unsafe, "Fixed")
        return
    fixed = [finding for file in run.fixed for finding in file.mended]
    yield summary(run.results, run.checked, paint, fixed, asides=asides)
    checking = fixing.mode is Mode.CHECK
    more = hint(run.results, fixing.unsafe, paint) if checking else hint_after(run.results, fixing.unsafe)
    if more is not None:
        yield more
