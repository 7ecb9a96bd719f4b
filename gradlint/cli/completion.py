"""Shell completion where click's own falls short: `--option=value`, a zsh without its completion, commas in fish."""

from __future__ import annotations

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)


class _Whole(ShellComplete):
    """Behind `--option=` a shell that has not split the word wants all of it back."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        items = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        if not equals or not option.startswith("--"):
            return items
        return [
            CompletionItem(f"{option}={item.value}", type=item.type, help=item.help) if item.type == "plain" else item
            for item in items
        ]


class Bash(_Whole, BashComplete):
    """It splits words at `=`, unless it is told not to."""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        return [word for word in args if word != "="], incomplete


class Zsh(_Whole, ZshComplete):
    """Its completion is switched on, if nobody has done so."""

    source_template = ZshComplete.source_template.replace(
        "    compdef ", "    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n    compdef "
    )


class Fish(_Whole, FishComplete):
    """What it is told has one comma that parts, and others that are words of the description, or of a list."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split -m 1 ","')


def improve() -> None:
    """Make click use these."""
    add_completion_class(Bash)
    add_completion_class(Zsh)
    add_completion_class(Fish)
