"""`gradlint check`: lint files and folders."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

import click

from gradlint.cli.mode import Fixing, Mode, chosen, refuse_conflicts
from gradlint.cli.output import Output
from gradlint.config.fixing import FixChoice
from gradlint.config.loader import ConfigTree, Overrides
from gradlint.config.presets import preset_named
from gradlint.config.selectors import Layer
from gradlint.config.selectors import check as check_selectors
from gradlint.model import Severity

if TYPE_CHECKING:
    from gradlint.runner.cache import Cache
    from gradlint.runner.files import SourceFile
    from gradlint.runner.run import Run

STDIN = "-"


class Request(NamedTuple):
    """The command line, as given."""

    paths: tuple[str, ...]
    preset: str | None
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    extend_select: tuple[str, ...]
    output_format: str
    statistics: bool
    exit_zero: bool
    fail_on: str
    jobs: int | None
    no_cache: bool
    config: str | None
    isolated: bool
    quiet: bool
    verbose: bool
    show_files: bool
    stdin_filename: str | None
    force_exclude: bool
    fix: bool | None
    unsafe_fixes: bool | None
    fix_only: bool | None
    show_fixes: bool | None
    diff: bool
    fixable: tuple[str, ...]
    unfixable: tuple[str, ...]
    exit_non_zero_on_fix: bool

    def choice(self) -> FixChoice:
        return FixChoice(self.fix, self.unsafe_fixes, self.fix_only, self.show_fixes)


PRESETS = "The rules to start from: strict (every rule), default, or quiet (errors only)."
_SELECTORS = "Codes, prefixes like GL2, names, or ALL; comma-separated."


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(allow_dash=True))
@click.option("--preset", metavar="PRESET", help=PRESETS)
@click.option("--select", multiple=True, metavar="RULES", help=f"Use only these rules. {_SELECTORS}")
@click.option("--ignore", multiple=True, metavar="RULES", help=f"Leave these rules out. {_SELECTORS}")
@click.option("--extend-select", multiple=True, metavar="RULES", help=f"Use these rules, too. {_SELECTORS}")
@click.option("--fix/--no-fix", default=None, help="Apply the safe fixes and write the files.")
@click.option("--unsafe-fixes/--no-unsafe-fixes", default=None, help="Apply, or count, the unsafe fixes as well.")
@click.option("--diff", is_flag=True, help="Print what --fix would change, and write nothing.")
@click.option("--fix-only/--no-fix-only", default=None, help="Fix, and say nothing about what is left.")
@click.option("--show-fixes/--no-show-fixes", default=None, help="List what was fixed in each file.")
@click.option("--fixable", multiple=True, metavar="RULES", help=f"Fix only these rules. {_SELECTORS}")
@click.option("--unfixable", multiple=True, metavar="RULES", help=f"Do not fix these rules. {_SELECTORS}")
@click.option("--output-format", type=click.Choice(["full", "concise", "json"]), default="full", show_default=True)
@click.option("--statistics", is_flag=True, help="Count findings by rule instead of showing them.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 if something was fixed, even if all was.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "advice"]),
    default="warning",
    show_default=True,
    help="The least severity that makes the exit code 1.",
)
@click.option("--jobs", "-j", type=click.IntRange(min=1), help="Processes to use.  [default: one per processor]")
@click.option("--no-cache", is_flag=True, help="Neither read nor write .gradlint_cache.")
@click.option("--config", metavar="FILE", help="Use this configuration file for all paths.")
@click.option("--isolated", is_flag=True, help="Ignore all configuration files.")
@click.option("--force-exclude", is_flag=True, help="Apply excludes to files named on the command line, too.")
@click.option("--show-files", is_flag=True, help="List the files that would be checked, and stop.")
@click.option("--stdin-filename", metavar="FILE", help="The name of what comes through stdin (PATHS is -).")
@click.option("--quiet", "-q", is_flag=True, help="Print findings only.")
@click.option("--verbose", "-v", is_flag=True, help="Say which configuration was used and what the run cost.")
def check(**options: object) -> int:
    """Check PATHS (files or folders; default: the current folder; - for stdin) for gradient mistakes."""
    return _Check(Request(**options)).run()  # type: ignore[arg-type] # click has checked every value


class _Check:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._begun = time.monotonic()
        if request.config is not None and request.isolated:
            raise click.UsageError("--config and --isolated cannot be used together.")
        refuse_conflicts(
            request.choice(),
            diff=request.diff,
            statistics=request.statistics,
            exit_zero=request.exit_zero,
            exit_on_fix=request.exit_non_zero_on_fix,
        )
        self._tree = ConfigTree(
            Overrides(layer_of(request, request.fixable, request.unfixable), request.config, request.isolated)
        )
        self._output = Output(request.output_format, request.statistics, request.quiet)

    def run(self) -> int:
        paths = self._request.paths or (".",)
        if STDIN in paths:
            if len(paths) > 1:
                raise click.UsageError("- (stdin) cannot be combined with other paths.")
            return self._stdin()
        from gradlint.runner.files import FileFinder, MissingPathError

        finder = FileFinder(self._tree, force_exclude=self._request.force_exclude)
        try:
            files = list(finder.find(paths))
        except MissingPathError as error:
            raise click.UsageError(str(error)) from None
        if self._request.show_files:
            self._output.lines(sorted(file.path for file in files))
            return 0
        if not files:
            self._output.warn("no Python files found under the given paths")
        for skipped in finder.skipped:
            self._output.warn(f"{skipped.shown}: {skipped.reason}")
        fixing = self._fixing(os.getcwd())
        return self._finish(self._lint(files, fixing), fixing)

    def _fixing(self, folder: str) -> Fixing:
        """Whether a run writes is one choice for the whole run: that of the folder it is started in."""
        return chosen(self._request.choice(), self._tree.at(folder).fixing, diff=self._request.diff)

    def _lint(self, files: list[SourceFile], fixing: Fixing) -> Run:
        from gradlint.report.progress import ProgressBar
        from gradlint.runner.processes import default_jobs
        from gradlint.runner.run import run

        jobs = self._request.jobs or default_jobs()
        with ProgressBar(enabled=False if self._request.quiet else None) as bar:
            return run(files, cache=self._cache(), jobs=jobs, tick=bar, fix=fixing.plan())

    def _cache(self) -> Cache | None:
        if self._request.no_cache:
            return None
        from gradlint.runner.cache import Cache

        return Cache(cache_root(self._request.paths[0] if self._request.paths else "."))

    def _stdin(self) -> int:
        name = self._request.stdin_filename or STDIN
        folder = os.path.dirname(os.path.abspath(name)) if name != STDIN else os.getcwd()
        source = sys.stdin.buffer.read()
        if self._request.show_files:
            self._output.lines([name])
            return 0
        from gradlint.runner.run import run_text

        fixing = self._fixing(folder)
        run, text = run_text(source, name, self._tree.at(folder), fixing.plan())
        self._output.sources[name] = text
        if fixing.mode in (Mode.FIX, Mode.FIX_ONLY):
            self._output.fixed_text(text)
        return self._finish(run, fixing)

    def _finish(self, run: Run, fixing: Fixing) -> int:
        for result in run.results:
            self._output.troubles(result, verbose=self._request.verbose)
        for failure in run.failures:
            self._output.error(f"{failure.path}: not fixed: {failure.reason}")
        if self._request.verbose:
            self._tell(run)
        if fixing.mode is Mode.DIFF:
            self._output.diff(run, fixing)
        else:
            self._output.results(run, fixing)
        return self._exit_code(run, fixing)

    def _tell(self, run: Run) -> None:
        source = self._tree.at(os.getcwd()).source
        suppressed = sum(result.suppressed for result in run.results)
        self._output.note(f"configuration: {source or 'defaults'}")
        self._output.note(
            f"{run.checked} files: {run.cached} from the cache, {run.parsed} parsed, the others hold no gradients; "
            f"{suppressed} findings suppressed; {len(run.fixed)} files fixed; {time.monotonic() - self._begun:.2f} s"
        )

    def _exit_code(self, run: Run, fixing: Fixing) -> int:
        if any(result.crashes for result in run.results):
            return 3
        if run.failures:
            return 2
        if fixing.mode is Mode.DIFF:
            found = bool(run.fixed)
        elif run.fixed and self._request.exit_non_zero_on_fix:
            found = True
        else:
            least = Severity[self._request.fail_on.upper()]
            left = [] if fixing.mode is Mode.FIX_ONLY else run.results
            found = any(finding.severity >= least for result in left for finding in result.findings)
        return 1 if found and not self._request.exit_zero else 0


class Selecting(Protocol):
    """The options of any command that lints."""

    @property
    def preset(self) -> str | None: ...
    @property
    def select(self) -> tuple[str, ...]: ...
    @property
    def ignore(self) -> tuple[str, ...]: ...
    @property
    def extend_select(self) -> tuple[str, ...]: ...


def layer_of(request: Selecting, fixable: tuple[str, ...] = (), unfixable: tuple[str, ...] = ()) -> Layer:
    """What the command line says about rules."""
    return Layer(
        _words(request.select, "--select") if request.select else None,
        _words(request.extend_select, "--extend-select"),
        _words(request.ignore, "--ignore"),
        _words(fixable, "--fixable") if fixable else None,
        _words(unfixable, "--unfixable"),
        preset_named(request.preset, where="--preset") if request.preset is not None else None,
    )


def _words(values: tuple[str, ...], option: str) -> tuple[str, ...]:
    words = tuple(word for value in values for word in value.replace(",", " ").split())
    check_selectors(words, where=option)
    return words


def cache_root(path: str) -> str:
    """The nearest folder upwards that holds a configuration or a project file, else the current folder."""
    folder = os.path.abspath(path)
    if not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    while True:
        if any(os.path.exists(os.path.join(folder, name)) for name in ("gradlint.toml", "pyproject.toml")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return os.getcwd()
        folder = parent
