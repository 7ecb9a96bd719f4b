"""Which rules the command line asks for, the same for every command that lints."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

import click

from gradlint.config.selectors import ALL, Layer, Preset, preset_named, valid_selectors
from gradlint.config.selectors import check as check_selectors
from gradlint.registry import by_code, by_name

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PRESETS = "The rules to start from: strict (every rule), default, or quiet (errors only)."
SELECTORS = "Codes, prefixes like GL2, names, or ALL; comma-separated."

_Function = TypeVar("_Function", bound=Callable[..., object])


#: of every command that tells people and programs
FORMAT = click.option(
    "--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print it."
)


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
        words(request.select, "--select") if request.select else None,
        words(request.extend_select, "--extend-select"),
        words(request.ignore, "--ignore"),
        words(fixable, "--fixable") if fixable else None,
        words(unfixable, "--unfixable"),
        preset_named(request.preset, where="--preset") if request.preset is not None else None,
    )


def words(values: tuple[str, ...], option: str) -> tuple[str, ...]:
    words = tuple(word for value in values for word in value.replace(",", " ").split())
    check_selectors(words, where=option)
    return words


def rules_option(flag: str, words: str) -> Callable[[_Function], _Function]:
    """An option that takes rules, in any number."""
    about = f"{words} {SELECTORS}"
    return click.option(flag, multiple=True, metavar="RULES", help=about, shell_complete=complete_selectors)


def selecting(command: _Function) -> _Function:
    """The options that choose the rules."""
    for option in (
        rules_option("--extend-select", "Use these rules, too."),
        rules_option("--ignore", "Leave these rules out."),
        rules_option("--select", "Use only these rules."),
        click.option("--preset", metavar="PRESET", help=PRESETS, shell_complete=complete_presets),
    ):
        command = option(command)
    return command


def complete_presets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [preset.value for preset in Preset if preset.value.startswith(incomplete)]


def complete_selectors(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """For a shell: the last word of a list such as `GL101,GL2`."""
    before, comma, begun = incomplete.rpartition(",")
    helps = {ALL: "every rule"}
    helps |= {code: rule.summary() for code, rule in by_code().items()}
    helps |= {name: rule.summary() for name, rule in by_name().items()}
    return _items(before + comma, begun, valid_selectors(), helps)


def complete_rule(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """For a shell: one code or name."""
    rules = {**by_code(), **by_name()}
    return _items("", incomplete, list(rules), {word: rule.summary() for word, rule in rules.items()})


def _items(before: str, begun: str, words: list[str], helps: dict[str, str]) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [
        CompletionItem(before + word, help=helps.get(word))
        for word in words
        if word.lower().startswith(begun.lower().replace("_", "-"))
    ]
