"""`gradlint check`: lint files and folders."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from gradlint.cli.gates import Gates
from gradlint.cli.output import HELP as FORMATS_HELP
from gradlint.cli.output import FormatType, Output, ProgressBar, targets
from gradlint.cli.request import STDIN, Fixing, Mode, Request, chosen, refuse
from gradlint.cli.selection import PRESETS, complete_presets, layer_of, rules_option
from gradlint.config.load import ConfigTree, Overrides
from gradlint.model import SYNTAX_ERROR, Severity
from gradlint.records import replace
from gradlint.runner.files import UNKNOWN, FileFinder, MissingPathError, SourceFile
from gradlint.runner.run import Run, default_jobs, run, run_text

if TYPE_CHECKING:
    from gradlint.config import Settings
    from gradlint.runner.cache import Cache
    from gradlint.runner.importers import Importers
    from gradlint.runner.write import FixPlan

_FILE = click.Path(dir_okay=False)  # shells complete it


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(allow_dash=True))
@click.option("--preset", metavar="PRESET", help=PRESETS, shell_complete=complete_presets)
@rules_option("--select", "Use only these rules.")
@rules_option("--ignore", "Leave these rules out.")
@rules_option("--extend-select", "Use these rules, too.")
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
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 if something was fixed, even if all was.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "advice"]),
    default="warning",
    show_default=True,
    help="The least severity that makes the exit code 1.",
)
@click.option("--baseline", metavar="FILE", type=_FILE, help="Say nothing of the findings that this file lists.")
@click.option("--no-baseline", is_flag=True, help="Use no baseline, whatever the configuration says.")
@click.option(
    "--write-baseline", metavar="FILE", type=_FILE, help="List all findings in this file, for --baseline, and stop."
)
@click.option(
    "--diff-base", metavar="REF", help="Tell only what changed since this git revision, as in a pull request."
)
@click.option("--watch", is_flag=True, help="Check again whenever a file changes, until Ctrl-C.")
@click.option("--jobs", "-j", type=click.IntRange(min=1), help="Processes to use.  [default: one per processor]")
@click.option("--no-cache", is_flag=True, help="Neither read nor write the results of earlier runs.")
@click.option(
    "--cache-dir",
    metavar="DIR",
    type=click.Path(file_okay=False),
    envvar="GRADLINT_CACHE_DIR",
    show_envvar=True,
    help="Where results are kept.  [default: the user's cache folder]",
)
@click.option(
    "--project/--no-project", default=None, help="Follow files into those that they import; a preview.  [default: no]"
)
@click.option("--no-prefilter", is_flag=True, help="Read files, too, in which no rule can find anything; for tests.")
@click.option("--config", metavar="FILE", type=_FILE, help="Use this configuration file for all paths.")
@click.option("--isolated", is_flag=True, help="Ignore all configuration files.")
@click.option("--force-exclude", is_flag=True, help="Apply excludes to files named on the command line, too.")
@click.option(
    "--include-markdown/--no-include-markdown", default=None, help="Check the Python blocks of Markdown files, too."
)
@click.option("--show-files", is_flag=True, help="List the files that would be checked, and stop.")
@click.option("--stdin-filename", metavar="FILE", help="The name of what comes through stdin (PATHS is -).")
@click.option("--quiet", "-q", is_flag=True, help="Print findings only.")
@click.option("--verbose", "-v", is_flag=True, help="Say which configuration was used and what the run cost.")
def check(**options: object) -> int:
    """Check PATHS (files or folders; default: the current folder; - for stdin) for gradient mistakes."""
    request = Request(**options)  # type: ignore[arg-type] # click has checked every value
    refuse(request)
    if request.watch:
        from gradlint.cli.watch import watch

        return watch(request, lambda: _Check(request))
    return _Check(request).run()


class _Check:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._begun = time.monotonic()
        self._tree = ConfigTree(
            Overrides(layer_of(request, request.fixable, request.unfixable), request.config, request.isolated)
        )
        chosen_targets = targets(
            request.output_format, request.output_file, statistics=request.statistics, diff=request.diff
        )
        self._output = Output(chosen_targets, request.statistics, request.quiet)
        self._gates = Gates(request, self._output.sources)
        self.written: dict[str, bytes] = {}

    def run(self) -> int:
        if STDIN in self._request.paths:
            return self._stdin()
        files = self._files()
        if self._request.show_files:
            self._output.lines(sorted(file.path for file in files))
            return 0
        fixing = self._fixing(os.getcwd())
        if self._request.write_baseline is not None:
            return self._write_baseline(self._lint(files, None), files, self._request.write_baseline)
        if not self._gates.closed(files):
            return self._finish(self._lint(files, fixing.plan()), fixing)
        run = self._lint(files, None)
        self._gates.sift(run, files, fixing.plan())
        return self._finish(run, fixing)

    def _files(self) -> list[SourceFile]:
        request = self._request
        finder = FileFinder(self._tree, force_exclude=request.force_exclude, markdown=bool(request.include_markdown))
        try:
            files = list(finder.find(request.paths or (".",)))
        except MissingPathError as error:
            raise click.UsageError(str(error)) from None
        if request.include_markdown is False:
            files = [file for file in files if file.explicit or not file.path.endswith((".md", ".markdown"))]
        if request.no_prefilter or request.project is not None:
            files = [file._replace(settings=self._narrowed(file.settings)) for file in files]
        if not request.show_files:
            if not files:
                self._output.warn("no Python files found under the given paths")
            for skipped in finder.skipped:
                self._output.warn(f"{skipped.shown}: {skipped.reason}")
        return self._gates.admitted(files, self._output)

    def _narrowed(self, settings: Settings) -> Settings:
        prefilter = settings.prefilter and not self._request.no_prefilter
        project = settings.project if self._request.project is None else self._request.project
        return replace(settings, prefilter=prefilter, project=project)

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
        with ProgressBar(enabled=False if self._request.quiet else None) as bar:
            return run(files, cache=self._cache(), jobs=jobs, tick=bar, fix=plan, importers=self._importers(files))

    def _importers(self, files: list[SourceFile]) -> Importers | None:
        if not any(file.settings.project for file in files):
            return None
        from gradlint.runner.importers import Importers

        folders = [path for path in self._request.paths or (".",) if os.path.isdir(path)]
        return Importers(self._tree, folders, self._narrowed)

    def _cache(self) -> Cache | None:
        if self._request.no_cache:
            return None
        from gradlint.runner.cache import Cache

        return Cache(cache_root(self._request.paths[0] if self._request.paths else "."), self._request.cache_dir)

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
        closed = self._gates.closed([file])
        run, text = run_text(source, name, settings, None if closed else fixing.plan())
        self._output.sources[name] = source
        if closed:
            text = self._gates.sift(run, [file], fixing.plan()) or text
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
        self._output.asides = self._gates.asides
        if fixing.mode is Mode.DIFF:
            self._output.diff(run, fixing)
        else:
            self.written = {os.path.abspath(file.path): file.after for file in run.fixed}
            self._output.results(run, fixing)
        if not self._request.quiet:
            self._gates.tell_gone(self._output, self._request.paths)
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
