"""`gradlint rules` and `gradlint rule`: what gradlint knows, as a table or a page."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from gradlint.cli.selection import complete_presets, complete_rule
from gradlint.config.reading import unknown
from gradlint.config.selectors import preset_codes, preset_named
from gradlint.docs.example import page_with_fix, record_with_fix
from gradlint.docs.pages import FIX_LABELS, record
from gradlint.docs.terminal import terminal_page
from gradlint.registry import all_rules, by_code, by_name, find

if TYPE_CHECKING:
    from gradlint.rule import Rule

_FORMAT = click.option(
    "--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print it."
)


@click.command()
@click.option(
    "--preset",
    metavar="PRESET",
    help="Only the rules of a preset: strict, default or quiet.",
    shell_complete=complete_presets,
)
@_FORMAT
def rules(preset: str | None, output_format: str) -> int:
    """List all rules, or those of a preset."""
    listed = _listed(preset)
    if output_format == "json":
        click.echo(json.dumps([record(rule) for rule in listed], indent=2))
    elif sys.stdout.isatty():
        _table(listed)
    else:
        for rule in listed:
            state = "" if rule.meta.default else " (off by default)"
            click.echo(f"{rule.meta.code}  {rule.rule_name():<28}  {rule.meta.severity.label}{state}: {rule.summary()}")
    return 0


@click.command()
@click.argument("rule", metavar="CODE_OR_NAME", shell_complete=complete_rule)
@_FORMAT
def rule(rule: str, output_format: str) -> int:
    """Explain one rule: what it finds, why it matters, what to write instead."""
    found = _find(rule)
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


def _find(wanted: str) -> type[Rule]:
    found = find(wanted)
    if found is None:
        raise unknown("rule", wanted, [*by_code(), *by_name()])
    return found


def _table(rules: tuple[type[Rule], ...]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
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
