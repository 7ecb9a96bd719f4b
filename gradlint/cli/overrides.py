"""What the command line of `gradlint check` says over configuration files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from gradlint.cli.selection import layer_of, words
from gradlint.config.load import ConfigTree, Overlay, Overrides
from gradlint.config.reading import ConfigError, parse_toml
from gradlint.config.schema import COMMAND_LINE, excludes, of_file, settings_from
from gradlint.config.settings import RunChoice, Settings
from gradlint.runner.files import FileFinder

if TYPE_CHECKING:
    from gradlint.cli.request import Request
    from gradlint.config.settings import Pairs


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
