"""docs/reference.md: all commands with their options, and all keys of a configuration, read from where they are."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from gradlint.cli import gradlint
from gradlint.config.schema import KEYS, Kind
from gradlint.config.settings import FixChoice, RunChoice

REFERENCE = Path(__file__).resolve().parent / "reference.md"
_HEAD = """\
# Reference

Made by `python -m docs` from the program itself. `torch-gradlint` and `gradlint` are the same command; the first name
is only ours. The exit codes of `check` are 0 (nothing found), 1 (something found), 2 (wrong usage or configuration)
and 3 (internal error).
"""
_KEYS = """\
## Keys of a configuration

They stand in `.gradlint.toml`, `gradlint.toml` (the first of a folder counts), or under `[tool.gradlint]` in
`pyproject.toml`. [gradlint.schema.json](gradlint.schema.json) is their JSON schema, for editors that complete and check
TOML: `#:schema https://…/gradlint.schema.json` as the first line of the file tells Taplo and Even Better TOML of it.
"""
_BELOW = """\
Keys marked with * hold for a run as a whole, and are read from the folder that it is started in. Names of files and
folders, and patterns with a slash, count from the folder of the file that they stand in.
"""


def reference() -> str:
    """The whole page."""
    return "\n".join((_HEAD, *_commands(), _KEYS, *_keys(), "", _BELOW))


def _commands() -> Iterator[str]:
    ctx = click.Context(gradlint, info_name="gradlint")
    for name in gradlint.list_commands(ctx):
        command = gradlint.get_command(ctx, name)
        assert command is not None
        arguments = [_argument(p) for p in command.params if isinstance(p, click.Argument)]
        yield f"## `{' '.join(('gradlint', name, '[OPTIONS]', *arguments))}`\n"
        yield f"{_prose(command.help or '')}\n"
        yield from ("| option | what it does |", "|---|---|")
        yield from (f"| `{_cell(_names(p))}` | {_about(p)} |" for p in command.params if isinstance(p, click.Option))
        yield ""


def _argument(argument: click.Argument) -> str:
    name = argument.metavar or (argument.name or "").upper()
    if argument.metavar:
        return name
    return f"{name if argument.required else f'[{name}]'}{'...' if argument.nargs != 1 else ''}"


def _names(option: click.Option) -> str:
    """As they are typed, the short one first; not as click has it, which is not the same in all of its versions."""
    names = ", ".join(sorted(option.opts, key=len))
    if option.secondary_opts:
        return f"{names} / {', '.join(option.secondary_opts)}"
    if option.is_flag:
        return names
    words = "|".join(map(str, option.type.choices)) if isinstance(option.type, click.Choice) else ""
    return f"{names} {option.metavar or words or option.type.name.upper()}"


def _about(option: click.Option) -> str:
    about = _escaped(option.help or "")
    return f"{about} \\[default: {option.default}]".strip() if option.show_default else about


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Words that mean themselves; code in backticks stays."""
    parts = _cell(text).split("`")
    return "`".join(part if place % 2 else re.sub(r"[*_<\[]", r"\\\g<0>", part) for place, part in enumerate(parts))


def _prose(text: str) -> str:
    """Each paragraph on a line of its own; the sign that forbids breaking lines is click's."""
    paragraphs = inspect.cleandoc(text).replace("\b", "").split("\n\n")
    return "\n\n".join(_escaped(paragraph) for paragraph in paragraphs)


def _keys() -> Iterator[str]:
    yield from ("| key | what it is for | without it | example |", "|---|---|---|---|")
    for name, key in KEYS.items():
        star = "\\*" if name.replace("-", "_") in (*FixChoice._fields, *RunChoice._fields) else ""
        words = f": {', '.join(f'`{word}`' for word in key.words)}" if key.kind is Kind.WORD else ""
        default = f"`{key.default}`" if key.default in ("true", "false") or key.default[0] in '"[{' else key.default
        yield f"| `{name}`{star} | {key.about}{words} | {default} | `{key.example}` |"
