"""The command line of `gradlint check`: as given, what of it cannot be meant, what it says over configurations."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from gradlint.cli.selection import layer_of, words
from gradlint.config.load import ConfigTree, Overlay, Overrides
from gradlint.config.reading import ConfigError, parse_toml
from gradlint.config.schema import COMMAND_LINE, excludes, of_file, settings_from
from gradlint.config.settings import FixChoice, RunChoice, Settings
from gradlint.runner.files import FileFinder
from gradlint.runner.write import FixPlan

if TYPE_CHECKING:
    from gradlint.cli.output import Target
    from gradlint.config.settings import Pairs

STDIN = "-"

#: of every command that has to do with results of earlier runs
CACHE_DIR = click.option(
    "--cache-dir",
    metavar="DIR",
    type=click.Path(file_okay=False),
    envvar="GRADLINT_CACHE_DIR",
    show_envvar=True,
    help="Where results are kept.  [default: what the configuration says, else the user's cache folder]",
)


class Mode(enum.Enum):
    """What a run is for."""

    CHECK = "check"
    FIX = "fix"
    FIX_ONLY = "fix only"
    DIFF = "diff"


class Fixing(NamedTuple):
    """The mode, and how far it goes."""

    mode: Mode = Mode.CHECK
    unsafe: bool = False
    show: bool = False

    def plan(self) -> FixPlan | None:
        """What the runner is asked to do; None to lint only."""
        if self.mode is Mode.CHECK:
            return None
        return FixPlan(self.unsafe, write=self.mode is not Mode.DIFF)


def chosen(said: FixChoice, configured: FixChoice, *, diff: bool) -> Fixing:
    """`--diff` writes nothing whatever else is asked for; `--fix-only` implies `--fix`."""
    choice = said.over(configured)
    only = choice.fix_only and said.fix is not False
    mode = Mode.DIFF if diff else Mode.FIX_ONLY if only else Mode.FIX if choice.fix else Mode.CHECK
    return Fixing(mode, bool(choice.unsafe_fixes), bool(choice.show_fixes))


class Request(NamedTuple):
    """The command line, as given."""

    paths: tuple[str, ...]
    preset: str | None
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    extend_select: tuple[str, ...]
    output_format: tuple[Target, ...]
    output_file: str | None
    statistics: bool
    exit_zero: bool
    fail_on: str | None
    jobs: int | None
    no_cache: bool
    cache_dir: str | None
    no_prefilter: bool
    project: bool | None
    config: tuple[str, ...]
    isolated: bool
    quiet: bool
    verbose: bool
    show_files: bool
    stdin_filename: str | None
    exclude: tuple[str, ...]
    extend_exclude: tuple[str, ...]
    per_file_ignores: tuple[str, ...]
    force_exclude: bool | None
    respect_gitignore: bool | None
    ignore_noqa: bool
    add_ignore: str | None
    show_settings: bool
    fix: bool | None
    unsafe_fixes: bool | None
    fix_only: bool | None
    show_fixes: bool | None
    diff: bool
    fixable: tuple[str, ...]
    unfixable: tuple[str, ...]
    exit_non_zero_on_fix: bool
    include_markdown: bool | None
    baseline: str | None
    no_baseline: bool
    write_baseline: str | None
    diff_base: str | None
    watch: bool

    def choice(self) -> FixChoice:
        return FixChoice(self.fix, self.unsafe_fixes, self.fix_only, self.show_fixes)

    def baseline_of(self, settings: Settings) -> str | None:
        """The file of known findings that holds where these settings do."""
        return None if self.no_baseline else self.baseline or settings.baseline

    def writes_files(self) -> bool:
        """Whether the findings are to go anywhere but to the screen."""
        return self.output_file is not None or any(target.file is not None for target in self.output_format)


def _refused_with_comments(request: Request, stdin: bool) -> Iterator[tuple[bool, str, str]]:
    """`--add-ignore` changes files, and tells nothing of what it finds."""
    others = {
        "--fix": request.fix or request.fix_only,
        "--diff": request.diff,
        "--statistics": request.statistics,
        "--output-file": request.writes_files(),
        "--write-baseline": request.write_baseline is not None,
        "--ignore-noqa": request.ignore_noqa,
        "--watch": request.watch,
        "- (stdin)": stdin,
    }
    return ((request.add_ignore is not None and bool(given), "--add-ignore", name) for name, given in others.items())


def refuse(request: Request) -> None:
    """Options that cannot both be meant."""
    writes = request.write_baseline is not None
    stdin = STDIN in request.paths
    pairs = (
        (request.baseline is not None and request.no_baseline, "--baseline", "--no-baseline"),
        (writes and request.baseline is not None, "--write-baseline", "--baseline"),
        (writes and request.diff_base is not None, "--write-baseline", "--diff-base"),
        (writes and (request.fix or request.fix_only), "--write-baseline", "--fix"),
        (writes and request.diff, "--write-baseline", "--diff"),
        (writes and request.writes_files(), "--write-baseline", "--output-file"),
        (writes and request.statistics, "--write-baseline", "--statistics"),
        (writes and request.watch, "--write-baseline", "--watch"),
        (writes and stdin, "--write-baseline", "- (stdin)"),
        (request.diff_base is not None and stdin, "--diff-base", "- (stdin)"),
        *_refused_with_comments(request, stdin),
        (request.watch and stdin, "--watch", "- (stdin)"),
        (request.watch and request.diff, "--watch", "--diff"),
        (request.watch and request.show_files, "--watch", "--show-files"),
        (request.diff and request.show_fixes, "--diff", "--show-fixes"),
        (request.diff and request.statistics, "--diff", "--statistics"),
        (request.exit_zero and request.exit_non_zero_on_fix, "--exit-zero", "--exit-non-zero-on-fix"),
        # ruff would write; whoever says --no-fix must be able to rely on it
        (request.fix is False and request.fix_only, "--no-fix", "--fix-only"),
    )
    for both, one, other in pairs:
        if both:
            raise click.UsageError(f"{one} and {other} cannot be used together.")
    if stdin and len(request.paths) > 1:
        raise click.UsageError("- (stdin) cannot be combined with other paths.")


# -- over configuration files ------------------------------------------------------------------------------------------


def overrides_of(request: Request) -> Overrides:
    """Options go over `--config 'key = value'`, and that over any file."""
    file, table = _given(request.config)
    if file is not None and request.isolated:
        raise click.UsageError("--config FILE and --isolated cannot be used together.")
    overlays = []
    if table:
        overlays.append(Overlay(settings_from(table, COMMAND_LINE, folder=os.getcwd()), frozenset(table)))
    own = _options(request)
    if own.keys or own.settings.run != RunChoice():
        overlays.append(own)
    layer = layer_of(request, request.fixable, request.unfixable)
    return Overrides(layer, file, request.isolated, tuple(overlays))


def finder_of(request: Request, tree: ConfigTree) -> FileFinder:
    """Finds the files of a run as its command line, and the configuration where it is started, have it."""
    choice = tree.at(os.getcwd()).run
    return FileFinder(
        tree, force_exclude=bool(choice.force_exclude), markdown=bool(request.include_markdown),
        gitignore=choice.respect_gitignore is not False,
    )  # fmt: skip


def _given(values: tuple[str, ...]) -> tuple[str | None, Mapping[str, object]]:
    """The file that `--config` names, and the keys that it sets: `--config 'fail-on = "error"'`."""
    files = [value for value in values if os.path.isfile(value)]
    if len(files) > 1:
        raise click.UsageError("--config: more than one configuration file.")
    table: dict[str, object] = {}
    for value in values:
        if value in files:
            continue
        if "=" not in value:
            said = "is a folder" if os.path.isdir(value) else "there is no such file"
            raise click.UsageError(f"--config {value}: {said}, and it is no `key = value`.")
        found = parse_toml(value.encode(), f"{COMMAND_LINE} {value}")
        if "extend" in found:
            raise ConfigError(f"{COMMAND_LINE}: extend: `{COMMAND_LINE} FILE` names a configuration here")
        table |= found
    return (files[0] if files else None), table


def _options(request: Request) -> Overlay:
    keys = set()
    if request.exclude:
        keys.add("exclude")
    if request.per_file_ignores:
        keys.add("per-file-ignores")
    if request.extend_exclude:
        keys.add("extend-exclude")
    settings = Settings(
        exclude=_patterns(request.exclude, "--exclude"),
        extend_exclude=_patterns(request.extend_exclude, "--extend-exclude"),
        per_file_ignores=_pairs(request.per_file_ignores),
        run=RunChoice(
            request.fail_on, None, request.force_exclude, request.respect_gitignore, request.cache_dir or None
        ),
    )
    return Overlay(settings, frozenset(keys))


def _patterns(values: tuple[str, ...], option: str) -> tuple[str, ...]:
    found = (part for value in values for part in value.split(",") if part)
    return excludes(found, os.getcwd(), where=option)


def _pairs(values: tuple[str, ...]) -> Pairs:
    """`PATTERN:RULE`, in any number, with commas between them."""
    option = "--per-file-ignores"
    found: dict[str, tuple[str, ...]] = {}
    for pair in (part for value in values for part in value.split(",") if part):
        pattern, colon, rules = pair.rpartition(":")
        if not colon or not pattern or not rules:
            raise click.UsageError(f"{option}: `{pair}` is no PATTERN:RULE, such as `tests/*:GL4`.")
        pattern = of_file(pattern.strip(), os.getcwd())
        found[pattern] = (*found.get(pattern, ()), *words((rules,), option))
    return tuple(found.items())
