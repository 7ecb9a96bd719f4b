"""`gradlint verify`: run a script, and see which findings are real and whether the fix cures them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console

from gradlint.cli.selection import FORMAT, layer_of, selecting
from gradlint.config.load import ConfigTree, Overrides
from gradlint.runtime.launch.orders import Entry, find_module
from gradlint.runtime.launch.run import Job, LaunchError, resolve, too_few, torch_is_installed
from gradlint.runtime.page.render import PageError, write
from gradlint.runtime.page.verification import verification_page
from gradlint.runtime.report import as_json, show
from gradlint.runtime.verdicts import Verification
from gradlint.runtime.verify import Wanted
from gradlint.runtime.verify import verify as run


class Request(NamedTuple):
    """The command line, as given."""

    script: str | None
    module: str | None
    arguments: tuple[str, ...]
    steps: int
    timeout: float
    device: str
    nproc: int
    pretend_gpus: int
    seed: int
    no_fix: bool
    unsafe_fixes: bool
    output_format: str
    html: str | None
    preset: str | None
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    extend_select: tuple[str, ...]
    config: str | None
    isolated: bool
    verbose: bool


class _Command(click.Command):
    """Says where the script's own options go."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = f"Options of the script itself go behind `--`: gradlint verify SCRIPT -- {error.option_name} …"
            raise click.UsageError(f"{error.format_message()}\n{hint}", ctx) from None


@click.command(cls=_Command)
@click.argument("script", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]...")
@click.option("-m", "module", metavar="MODULE", help="Run a module in place of a script, as `python -m` does.")
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Optimizer steps, then the script is stopped.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    help="Seconds that each of the two runs may take.",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda", "mps"]),
    default="auto",
    show_default=True,
    help="cpu hides the GPUs; a script written for CUDA then runs on the CPU.",
)
@click.option(
    "--nproc",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Ranks to start, through torchrun (gloo on the CPU).",
)
@click.option(
    "--pretend-gpus",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="On the CPU, tell the script of N GPUs; what it puts there lands on the CPU.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="For random, numpy and torch, before the script begins."
)
@click.option("--no-fix", is_flag=True, help="Do not run the fixed copy.")
@click.option("--unsafe-fixes", is_flag=True, help="Apply the unsafe fixes to the copy as well.")
@FORMAT
@click.option("--html", metavar="FILE", help="Write a report with the timeline of events and the norms.")
@selecting
@click.option("--config", metavar="FILE", help="Use this configuration file.")
@click.option("--isolated", is_flag=True, help="Ignore all configuration files.")
@click.option("--verbose", "-v", is_flag=True, help="Show what the script prints, on stderr.")
def verify(**options: object) -> int:
    """RUN a training script or notebook for a few steps, and say which findings are real.

    This command runs SCRIPT (or `-m MODULE`), with ARGS, on this machine, with all that it does: it reads and writes
    what the script reads and writes. Then it runs a copy with the fixes applied; your file is not changed.

    Exit codes: 0 nothing confirmed, 1 something confirmed, 2 usage, 3 the script failed or took no optimizer step.
    """
    return _verify(Request(**options))  # type: ignore[arg-type] # click has checked every value


def _verify(request: Request) -> int:
    if request.config is not None and request.isolated:
        raise click.UsageError("--config and --isolated cannot be used together.")
    entry, script, arguments = _what_to_run(request)
    page = Path(request.html) if request.html is not None else None
    if page is not None and page.is_dir():
        raise click.UsageError(f"--html: {page} is a folder.")
    if page is not None and not page.absolute().parent.is_dir():
        raise click.UsageError(f"--html: the folder {page.parent} does not exist.")
    if not torch_is_installed():
        raise click.UsageError(
            "`gradlint verify` runs code and needs torch, which is not installed here: "
            'pip install "torch-gradlint[runtime]"'
        )
    tree = ConfigTree(Overrides(layer_of(request), request.config, request.isolated))
    device = resolve("cpu" if request.pretend_gpus else request.device)
    if note := too_few(device, request.nproc):
        device = "cpu"
        _say(f"gradlint: {note}")
    job = Job(
        script, request.timeout, request.nproc, entry=entry,
        arguments=arguments, steps=request.steps, seed=request.seed, device=device, pretended=request.pretend_gpus,
    )  # fmt: skip
    wanted = Wanted(job, not request.no_fix, request.unsafe_fixes, _script_output if request.verbose else None)
    name = request.module or request.script
    _say(f"gradlint runs {name} on this machine ({device}), for {request.steps} optimizer steps")
    try:
        result = run(wanted, tree, lambda text: _say(f"gradlint: {text}") if request.verbose else None)
    except LaunchError as error:
        raise click.ClickException(str(error)) from None
    _print(result, request.output_format)
    if page is not None:
        _write(result, page)
    if result.failure:
        return 3
    if result.confirmed:
        return 1
    if result.stepless:
        _say("gradlint: no optimizer step was taken, so nothing was judged: have the script train, if only for a batch")
        return 3
    return 0


def _what_to_run(request: Request) -> tuple[Entry | None, Path, tuple[str, ...]]:
    """How a module is started, if it is one, its file, and the arguments of the script itself."""
    if request.module is not None:
        found = find_module(request.module)
        if found is None:
            raise click.UsageError(f"-m: there is no module {request.module} to run, here or where Python looks.")
        first = () if request.script is None else (request.script,)
        path, entry = found
        return entry, path, (*first, *request.arguments)
    if request.script is None:
        raise click.UsageError("Missing argument 'SCRIPT', or `-m MODULE`.")
    script = Path(request.script)
    if not script.is_file():
        what = "is a directory" if script.is_dir() else "does not exist"
        raise click.BadParameter(f"File {request.script!r} {what}.", param_hint="'SCRIPT'")
    if script.suffix not in (".py", ".pyw", ".ipynb", ""):
        raise click.UsageError(f"{request.script} is not a Python script.")
    return None, script, request.arguments


def _write(result: Verification, page: Path) -> None:
    try:
        write(verification_page(result), page)
    except PageError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{page} cannot be written: {error.strerror}") from None
    _say(f"gradlint: the report is in {page}")


def _print(result: Verification, output_format: str) -> None:
    if result.failure:
        _say("gradlint: the script failed; this is its own output:")
        for line in result.failure.rstrip().splitlines():
            _say(f"  | {line}")
    if output_format == "json":
        click.echo(as_json(result))
        return
    show(result, Console(width=None if sys.stdout.isatty() else 120))


def _script_output(text: str) -> None:
    for line in text.splitlines():
        _say(f"  | {line}")


def _say(text: str) -> None:
    print(text, file=sys.stderr)
