"""The `gradlint` command; each subcommand is imported only when it is called."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence

import click

import gradlint as package
from gradlint import __version__
from gradlint.config.reading import ConfigError
from gradlint.report.paths import harmless_lines

CLEAN, FOUND, USAGE, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130

_COMMANDS = {
    "check": "gradlint.cli.check",
    "verify": "gradlint.cli.verify",
    "prove": "gradlint.cli.prove",
    "rules": "gradlint.cli.rules",
    "rule": "gradlint.cli.rules",
    "new-rule": "gradlint.cli.new_rule",
    "trace": "gradlint.cli.trace",
    "server": "gradlint.cli.server",
    "doctor": "gradlint.cli.doctor",
    "clean": "gradlint.cli.clean",
    "version": "gradlint.cli.version",
}


#: what shells set when they ask for completions
_COMPLETING = ("_GRADLINT_COMPLETE", "_TORCH_GRADLINT_COMPLETE")


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS.get(cmd_name)
        if module is None:
            return None
        found = getattr(importlib.import_module(module), cmd_name.replace("-", "_"))
        return found if isinstance(found, click.Command) else None


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="gradlint")
def gradlint() -> None:
    """Finds gradient mistakes in PyTorch training code."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script: run, then exit with 0 clean, 1 findings, 2 usage or configuration, 3 internal error."""
    gc.set_threshold(100_000, 20, 50)  # what is imported stays: there is nothing to look for in it
    code = run(arguments)
    gc.freeze()  # on its way out Python would look for cycles in all that is left, a tenth of a short run
    sys.exit(code)


def _open_what_is_closed() -> None:
    """`gradlint check >&-` is unusual but no error; Python has no stream at all then."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # it stays open


def _called() -> str:
    """The name that the command was called by, of the two that it has."""
    name = os.path.basename(sys.argv[0]).replace("_", "-")
    return "torch-gradlint" if name.startswith("torch-gradlint") else "gradlint"


def _clash() -> str | None:
    """What another distribution of the same name does to this one."""
    from torch_gradlint import clash

    return clash()


def run(arguments: Sequence[str] | None = None) -> int:
    _open_what_is_closed()
    if not hasattr(package, "DISTRIBUTION"):  # the `__init__` of another distribution lies where ours was
        click.echo(f"gradlint: error: {_clash()}", err=True)
        return USAGE
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a file name or a message must never fail on a narrow encoding
            stream.reconfigure(errors="backslashreplace")
    try:
        os.getcwd()
    except OSError:
        click.echo("gradlint: error: the current folder does not exist any more", err=True)
        return USAGE
    if any(name in os.environ for name in _COMPLETING):
        from gradlint.cli.completion import improve

        improve()
    try:
        code = gradlint.main(arguments, prog_name=_called(), standalone_mode=False)
    except ConfigError as error:
        click.echo(f"gradlint: error: {harmless_lines(str(error))}", err=True)
        return USAGE
    except click.ClickException as error:
        error.show()
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("gradlint: interrupted", err=True)
        return INTERRUPTED
    except Exception as error:
        import traceback

        where = traceback.extract_tb(error.__traceback__)[-1]
        click.echo(
            f"gradlint: internal error: {type(error).__name__}: {error} ({where.filename}:{where.lineno})", err=True
        )
        # a module of ours may be another distribution's by now
        if isinstance(error, ImportError | AttributeError) and (told := _clash()):
            click.echo(f"gradlint: error: {told}", err=True)
        return INTERNAL
    return code if isinstance(code, int) else CLEAN
