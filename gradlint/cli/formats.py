"""Which formats a run is told in, and where each goes: `--output-format full --output-format sarif=gradlint.sarif`."""

from __future__ import annotations

import importlib
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from gradlint.config.errors import unknown

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from gradlint.report.reported import Report

TEXT = ("full", "concise")
#: formats for programs, and what makes them; each is imported when it is asked for
MACHINE = {
    "json": "json_format:as_json",
    "jsonl": "json_format:as_json_lines",
    "sarif": "sarif_format:as_sarif",
    "github": "github_format:as_github",
    "gitlab": "gitlab_format:as_gitlab",
    "junit": "junit_format:as_junit",
    "lsp": "lsp_format:as_lsp",
    "markdown": "markdown_format:as_markdown",
}
FORMATS = (*TEXT, *MACHINE)
#: those that `--statistics` can be told in
COUNTED = (*TEXT, "json")

_SOURCES = (".py", ".pyi", ".ipynb")

OPTION = "--output-format"
HELP = (
    f"How to tell the findings; give it again to write other formats to files. {', '.join(FORMATS)}.  [default: full]"
)
STDOUT = "-"


class Target(NamedTuple):
    """A format, and the file it is for; None for stdout."""

    format: str
    file: str | None = None

    @property
    def is_text(self) -> bool:
        return self.format in TEXT


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
    folder = os.path.dirname(os.path.abspath(file))
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
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
    from gradlint.runner.write import write_whole

    path = os.path.realpath(file)  # a link stays, and leads to the new text
    os.makedirs(os.path.dirname(path), exist_ok=True)
    mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else None
    write_whole(path, content)
    if mode is not None:
        os.chmod(path, mode)


def rendered(name: str, report: Report) -> Iterable[str]:
    """The lines of a format for programs."""
    module, _, function = MACHINE[name].partition(":")
    make: Callable[[Report], Iterable[str]] = getattr(importlib.import_module(f"gradlint.report.{module}"), function)
    return make(report)
