"""`gradlint rules` and `gradlint rule`: what gradlint knows, as a table or a page."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from gradlint.cli.selection import FORMAT, complete_presets, complete_rule
from gradlint.config.reading import unknown
from gradlint.config.selectors import expand, preset_codes, preset_named
from gradlint.docs.example import page_with_fix, record_with_fix
from gradlint.docs.pages import FIX_LABELS, record
from gradlint.docs.terminal import terminal_page
from gradlint.registry import all_rules, by_code, by_name, find

if TYPE_CHECKING:
    from gradlint.rule import Rule

#: columns that a table needs: with less, its last one would be a few letters wide
_TABLE = 90


@click.command()
@click.option(
    "--preset",
    metavar="PRESET",
    help="Only the rules of a preset: strict, default or quiet.",
    shell_complete=complete_presets,
)
@FORMAT
def rules(preset: str | None, output_format: str) -> int:
    """List all rules, or those of a preset."""
    listed = _listed(preset)
    if output_format == "json":
        click.echo(json.dumps([record(rule) for rule in listed], indent=2))
    elif sys.stdout.isatty():
        _table(listed)
    else:
        _lines(listed)
    return 0


@click.command()
@click.argument("rule", metavar="CODE_OR_NAME", required=False, shell_complete=complete_rule)
@click.option("--all", "everything", is_flag=True, help="Explain all rules.")
@FORMAT
def rule(rule: str | None, everything: bool, output_format: str) -> int:
    """Explain one rule: what it finds, why it matters, what to write instead.

    The beginning of a code (GL2) lists the rules of that family.
    """
    if everything == (rule is not None):
        raise click.UsageError("Name a rule, or say --all.")
    if rule is None:
        return _explain_all(output_format)
    found = find(rule)
    if found is None:
        return _family(rule, output_format)
    if output_format == "json":
        click.echo(json.dumps(record_with_fix(found), indent=2))
    elif sys.stdout.isatty():
        from rich.console import Console

        console = Console()
        console.print(*terminal_page(found, console.width), sep="\n")
    else:
        click.echo(page_with_fix(found), nl=False)
    return 0


def _listed(preset: str | None) -> tuple[type[Rule], ...]:
    if preset is None:
        return all_rules()
    codes = preset_codes(preset_named(preset, where="--preset"))
    return tuple(rule for rule in all_rules() if rule.meta.code in codes)


def _explain_all(output_format: str) -> int:
    if output_format == "json":
        click.echo(json.dumps([record_with_fix(rule) for rule in all_rules()], indent=2))
    else:
        click.echo("\n".join(page_with_fix(rule) for rule in all_rules()), nl=False)
    return 0


def _family(prefix: str, output_format: str) -> int:
    """The rules whose codes begin so; a mistake if there is none."""
    codes = expand(prefix)
    if not codes:
        raise unknown("rule", prefix, [*by_code(), *by_name()])
    listed = tuple(rule for rule in all_rules() if rule.meta.code in codes)
    if output_format == "json":
        click.echo(json.dumps([record(rule) for rule in listed], indent=2))
        return 0
    for heading in dict.fromkeys(rule.meta.category.value for rule in listed):
        own = tuple(rule for rule in listed if rule.meta.category.value == heading)
        click.echo(f"{heading}\n" if sys.stdout.isatty() else f"# {heading}")
        _table(own) if sys.stdout.isatty() else _lines(own)
    click.echo(f"\n`gradlint rule {listed[0].meta.code}` explains one of them.")
    return 0


def _lines(rules: tuple[type[Rule], ...]) -> None:
    """One line each, for other programs."""
    for rule in rules:
        state = "" if rule.meta.default else " (off by default)"
        click.echo(f"{rule.meta.code}  {rule.rule_name():<28}  {rule.meta.severity.label}{state}: {rule.summary()}")


def _narrow(rules: tuple[type[Rule], ...], width: int) -> Iterator[str]:
    """Code and name on one line, what it finds on those below."""
    for rule in rules:
        state = "" if rule.meta.default else ", off"
        head = f"{rule.meta.code} {rule.rule_name()} ({rule.meta.severity.label}{state})"
        yield from textwrap.wrap(head, width, subsequent_indent="      ")
        yield from textwrap.wrap(rule.summary(), width, initial_indent="      ", subsequent_indent="      ")


def _table(rules: tuple[type[Rule], ...]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if console.width < _TABLE:
        for line in _narrow(rules, console.width):
            click.echo(line)
        return
    roomy = console.width >= 110  # a narrow terminal has room for what matters only
    headings = ("code", "name", "severity", *(("fix",) if roomy else ()), "what it finds")
    table = Table(*headings, header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in table.columns[:-1]:
        column.no_wrap = True
    colours = {"error": "red", "warning": "yellow", "advice": "cyan"}
    for rule in rules:
        label = rule.meta.severity.label
        severity = f"[{colours[label]}]{label}[/]" + ("" if rule.meta.default else " (off)")
        fix = (FIX_LABELS[rule.meta.fix],) if roomy else ()
        table.add_row(rule.meta.code, rule.rule_name(), severity, *fix, rule.summary())
    console.print(table)
