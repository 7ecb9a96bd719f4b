"""`gradlint check`: lint files and folders."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from gradlint.cli.output import HELP as FORMATS_HELP
from gradlint.cli.output import FormatType, Output, Progress, Target, targets
from gradlint.cli.request import CACHE_DIR, STDIN, Fixing, Mode, Request, chosen, finder_of, overrides_of, refuse
from gradlint.cli.selection import Function, rules_option, selecting
from gradlint.config.load import FILES, ConfigTree
from gradlint.config.reading import folders_up
from gradlint.config.schema import SEVERITIES
from gradlint.model import SYNTAX_ERROR, Severity
from gradlint.records import replace
from gradlint.runner.files import UNKNOWN, MissingPathError, SourceFile
from gradlint.runner.importers import Importers
from gradlint.runner.run import Run, default_jobs, run, run_text, settle_text

if TYPE_CHECKING:
    from gradlint.cli.gates import Gates
    from gradlint.config import Settings
    from gradlint.runner.cache import Cache
    from gradlint.runner.write import FixPlan

_FILE = click.Path(dir_okay=False)  # shells complete it


def patterns_option(flag: str, words: str) -> Callable[[Function], Function]:
    """An option that takes patterns of files, in any number."""
    return click.option(flag, multiple=True, metavar="PATTERNS", help=f"{words} Names or paths; comma-separated.")


class _Check(click.Command):
    """`--add-ignore` may stand without a value, and then takes none from what follows it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [f"{a}=" if a == "--add-ignore" and i < end else a for i, a in enumerate(args)])


@click.command(cls=_Check)
@click.argument("paths", nargs=-1, type=click.Path(allow_dash=True))
@selecting
@click.option(
    "--per-file-ignores",
    multiple=True,
    metavar="PATTERN:RULE",
    help="Leave rules out in some files, such as tests/*:GL4; comma-separated.",
)
@click.option("--fix/--no-fix", default=None, help="Apply the safe fixes and write the files.")
@click.option("--unsafe-fixes/--no-unsafe-fixes", default=None, help="Apply, or count, the unsafe fixes as well.")
@click.option("--diff", is_flag=True, help="Print what --fix would change, and write nothing.")
@click.option("--fix-only/--no-fix-only", default=None, help="Fix, and say nothing about what is left.")
@click.option("--show-fixes/--no-show-fixes", default=None, help="List what was fixed in each file.")
@rules_option("--fixable", "Fix only these rules.")
@rules_option("--unfixable", "Do not fix these rules.")
@click.option(
    "--output-format",
    type=FormatType(),
    multiple=True,
    metavar="FORMAT[=FILE]",
    envvar="GRADLINT_OUTPUT_FORMAT",
    show_envvar=True,
    help=FORMATS_HELP,
)
@click.option("--output-file", "-o", metavar="FILE", help="Where the format without a file goes.  [default: stdout]")
@click.option("--statistics", is_flag=True, help="Count findings by rule instead of showing them.")
@click.option("--ignore-noqa", is_flag=True, help="Read no comments that silence findings.")
@click.option(
    "--add-ignore",
    metavar="[=REASON]",
    help="Silence all findings by comments at their lines, with the reason if one is given, and stop.",
)
@click.option("--exit-zero", "-e", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 if something was fixed, even if all was.")
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    help="The least severity that makes the exit code 1.  [default: warning]",
)
@click.option("--baseline", metavar="FILE", type=_FILE, help="Say nothing of the findings that this file lists.")
@click.option("--no-baseline", is_flag=True, help="Use no baseline, whatever the configuration says.")
@click.option(
    "--write-baseline", metavar="FILE", type=_FILE, help="List all findings in this file, for --baseline, and stop."
)
@click.option(
    "--diff-base", metavar="REF", help="Tell only what changed since this git revision, as in a pull request."
)
@click.option("--watch", "-w", is_flag=True, help="Check again whenever a file changes, until Ctrl-C.")
@click.option("--jobs", "-j", type=click.IntRange(min=1), help="Processes to use.  [default: one per processor]")
@click.option("--no-cache", "-n", is_flag=True, help="Neither read nor write the results of earlier runs.")
@CACHE_DIR
@click.option("--project/--no-project", default=None, help="Follow files into those that they import.  [default: yes]")
@click.option("--no-prefilter", is_flag=True, help="Read files, too, in which no rule can find anything; for tests.")
@click.option(
    "--config",
    multiple=True,
    metavar="FILE|KEY=VALUE",
    type=click.Path(),
    help="Use this configuration file for all paths, or set a key over any file, as in --config 'project = true'.",
)
@click.option("--isolated", is_flag=True, help="Ignore all configuration files.")
@patterns_option("--exclude", "Leave these out, instead of what the configuration, or the default, leaves out.")
@patterns_option("--extend-exclude", "Leave these out, too.")
@click.option(
    "--force-exclude/--no-force-exclude", default=None, help="Apply excludes to files named on the command line, too."
)
@click.option(
    "--respect-gitignore/--no-respect-gitignore", default=None, help="Leave out what git ignores.  [default: yes]"
)
@click.option(
    "--include-markdown/--no-include-markdown", default=None, help="Check the Python blocks of Markdown files, too."
)
@click.option("--show-files", is_flag=True, help="List the files that would be checked, and stop.")
@click.option("--show-settings", is_flag=True, help="Print what holds for the first file, and stop.")
@click.option("--stdin-filename", metavar="FILE", help="The name of what comes through stdin (PATHS is -).")
@click.option("--quiet", "-q", is_flag=True, help="Print findings only.")
@click.option("--verbose", "-v", is_flag=True, help="Say which configuration was used and what the run cost.")
def check(**options: object) -> int:
    """Check PATHS (files or folders; default: the current folder; - for stdin) for gradient mistakes."""
    request = Request(**options)  # type: ignore[arg-type] # click has checked every value
    refuse(request)
    if request.watch:
        from gradlint.cli.watch import watch

        return watch(request, lambda: _Checking(request))
    return _Checking(request).run()


class _Checking:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._begun = time.monotonic()
        self._tree = ConfigTree(overrides_of(request))
        #: what holds for the run as a whole is said where it is started
        self._choice = self._tree.at(os.getcwd()).run
        usual = None if self._choice.output_format is None else Target(self._choice.output_format)
        asked = request.output_format or (() if usual is None else (usual,))
        chosen_targets = targets(asked, request.output_file, statistics=request.statistics, diff=request.diff)
        self._output = Output(chosen_targets, request.statistics, request.quiet)
        self._bar = Progress(enabled=False if request.quiet else None)
        self._made: Gates | None = None
        self.written: dict[str, bytes] = {}
        self.around: frozenset[str] = frozenset()

    def run(self) -> int:
        if STDIN in self._request.paths:
            return self._stdin()
        files = self._files()
        if self._request.show_files:
            self._output.lines(sorted(file.path for file in files))
            return 0
        if self._request.show_settings:
            return self._show_settings(files)
        if self._request.add_ignore is not None:
            return self._add_ignore(files, self._request.add_ignore)
        fixing = self._fixing(os.getcwd())
        if self._request.write_baseline is not None:
            return self._write_baseline(self._lint(files, None), files, self._request.write_baseline)
        plan = fixing.plan()
        follows = plan is not None and any(file.settings.project for file in files)
        if not follows and not self._held_back(files):
            return self._finish(self._lint(files, plan), fixing)
        run = self._lint(files, None)
        self._gates.sift(run, files, plan)
        if follows and plan is not None and plan.write and run.fixed:
            written = {fixed.path for fixed in run.fixed}  # and what is fixed here counts in other files
            now = self._lint([x._replace(stamp=UNKNOWN) if x.shown in written else x for x in files], None)
            self._gates.sift_again(now, files)
            run.results = now.results
        return self._finish(run, fixing)

    def _files(self) -> list[SourceFile]:
        request = self._request
        finder = finder_of(request, self._tree)
        try:
            with self._bar as bar:
                files = list(bar.found(finder.find(request.paths or (".",))))
        except MissingPathError as error:
            raise click.UsageError(str(error)) from None
        if request.include_markdown is False:
            files = [file for file in files if file.explicit or not file.path.endswith((".md", ".markdown"))]
        if request.no_prefilter or request.ignore_noqa or request.project is not None:
            files = [file._replace(settings=self._narrowed(file.settings)) for file in files]
        if not request.show_files:
            if not files:
                self._output.warn("no Python files found under the given paths")
            for skipped in finder.skipped:
                self._output.warn(f"{skipped.shown}: {skipped.reason}")
        return files if request.diff_base is None else self._gates.admitted(files, request.diff_base)

    @property
    def _gates(self) -> Gates:
        """Made when there is anything to hold back, or to fix by what other files say."""
        if self._made is None:
            from gradlint.cli.gates import Gates

            self._made = Gates(self._request, self._output)
        return self._made

    def _held_back(self, files: Sequence[SourceFile]) -> bool:
        """Whether some findings may stay silent: known ones, or those beside the changed lines."""
        if self._request.diff_base is not None:
            return True
        return any(self._request.baseline_of(file.settings) is not None for file in files)

    def _narrowed(self, settings: Settings) -> Settings:
        prefilter = settings.prefilter and not self._request.no_prefilter
        project = settings.project if self._request.project is None else self._request.project
        return replace(settings, prefilter=prefilter, project=project, ignore_noqa=self._request.ignore_noqa)

    def _show_settings(self, files: list[SourceFile]) -> int:
        from gradlint.cli.settings import settings_lines

        for file in sorted(files, key=lambda file: file.path)[:1]:
            self._output.lines(settings_lines(file.settings, file.path))
        return 0

    def _add_ignore(self, files: list[SourceFile], reason: str) -> int:
        from gradlint.cli.comments import add_comments

        run = self._lint(files, None)
        if self._held_back(files):
            self._gates.sift(run, files, None)
        for result in run.results:
            self._output.troubles(result, verbose=self._request.verbose)
        return add_comments(run, files, reason, self._output, quiet=self._request.quiet)

    def _write_baseline(self, run: Run, files: list[SourceFile], file: str) -> int:
        said = self._gates.write(file, run, files)
        for result in run.results:
            self._output.troubles(result, verbose=self._request.verbose)
            if any(finding.code == SYNTAX_ERROR for finding in result.findings):
                self._output.warn(f"{result.path}: not valid Python, so its findings are not known")
        if not self._request.quiet:
            self._output.lines([said])
        return 3 if any(result.crashes for result in run.results) else 0

    def _fixing(self, folder: str) -> Fixing:
        """Whether a run writes is one choice for the whole run: that of the folder it is started in."""
        return chosen(self._request.choice(), self._tree.at(folder).fixing, diff=self._request.diff)

    def _lint(self, files: list[SourceFile], plan: FixPlan | None) -> Run:
        jobs = self._request.jobs or default_jobs()
        with self._bar as bar:
            return run(files, cache=self._cache(), jobs=jobs, tick=bar, fix=plan, importers=self._importers(files))

    def _importers(self, files: list[SourceFile]) -> Importers | None:
        if not any(file.settings.project for file in files):
            return None
        folders = [path for path in self._request.paths or (".",) if os.path.isdir(path)]
        return Importers(self._tree, folders, self._narrowed)

    def _cache(self) -> Cache | None:
        if self._request.no_cache:
            return None
        from gradlint.runner.cache import Cache

        return Cache(cache_root(self._request.paths[0] if self._request.paths else "."), self._choice.cache_dir)

    def _stdin(self) -> int:
        name = self._request.stdin_filename or STDIN
        folder = os.path.dirname(os.path.abspath(name)) if name != STDIN else os.getcwd()
        source = sys.stdin.buffer.read()
        if self._request.show_files:
            self._output.lines([name])
            return 0
        fixing = self._fixing(folder)
        settings = self._narrowed(self._tree.at(folder))
        file = SourceFile(name, os.path.abspath(name), UNKNOWN, settings, True)
        importers = self._importers([file]) if name != STDIN else None
        closed = importers is not None or self._held_back([file])
        run, text = run_text(source, name, settings, None if closed else fixing.plan())
        if importers is not None:
            settle_text(run, text, file, importers, self._cache())
        self._output.sources[name] = source
        if closed:
            text = self._gates.sift(run, [file], fixing.plan()) or text
            if importers is not None and text != source:
                settle_text(run, text, file, importers, self._cache())
        self._output.sources[name] = text
        if fixing.mode in (Mode.FIX, Mode.FIX_ONLY):
            self._output.fixed_text(text)
        return self._finish(run, fixing)

    def _finish(self, run: Run, fixing: Fixing) -> int:
        self.around = run.around
        for result in run.results:
            self._output.troubles(result, verbose=self._request.verbose)
        for failure in run.failures:
            self._output.error(f"{failure.path}: not fixed: {failure.reason}")
        if self._request.verbose:
            self._tell(run)
        if self._made is not None:
            self._output.asides = self._made.asides
        if fixing.mode is Mode.DIFF:
            self._output.diff(run, fixing)
        else:
            self.written = {os.path.abspath(file.path): file.after for file in run.fixed}
            self._output.results(run, fixing)
        if self._made is not None and not self._request.quiet:
            self._made.tell_gone()
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
            least = Severity[(self._choice.fail_on or "warning").upper()]
            left = [] if fixing.mode is Mode.FIX_ONLY else run.results
            found = any(finding.severity >= least for result in left for finding in result.findings)
        return 1 if found and not self._request.exit_zero else 0


def cache_root(path: str) -> str:
    """The nearest folder upwards that holds a configuration or a project file, else the current folder."""
    folder = os.path.abspath(path)
    if not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    marked = (each for each in folders_up(folder) if any(os.path.exists(os.path.join(each, name)) for name in FILES))
    return next(marked, os.getcwd())
