"""The command line of `gradlint check`, as given, and what of it cannot be meant."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from gradlint.config.settings import FixChoice
from gradlint.runner.write import FixPlan

if TYPE_CHECKING:
    from gradlint.cli.output import Target

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
