"""What a run does about fixes, from the command line over the configuration."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

import click

from gradlint.config.fixing import FixChoice

if TYPE_CHECKING:
    from gradlint.runner.mending import FixPlan


class Mode(enum.Enum):
    """What a run is for."""

    CHECK = "check"
    FIX = "fix"
    FIX_ONLY = "fix only"
    DIFF = "diff"


class Fixing(NamedTuple):
    """The mode, and how far it goes."""

    mode: Mode = Mode.CHECK
    unsafe: bool = False
    show: bool = False

    def plan(self) -> FixPlan | None:
        """What the runner is asked to do; None to lint only."""
        if self.mode is Mode.CHECK:
            return None
        from gradlint.runner.mending import FixPlan

        return FixPlan(self.unsafe, write=self.mode is not Mode.DIFF)


def refuse_conflicts(said: FixChoice, *, diff: bool, statistics: bool, exit_zero: bool, exit_on_fix: bool) -> None:
    """Pairs of options that cannot both be meant."""
    pairs = (
        (diff and said.show_fixes, "--diff", "--show-fixes"),
        (diff and statistics, "--diff", "--statistics"),
        (exit_zero and exit_on_fix, "--exit-zero", "--exit-non-zero-on-fix"),
        # ruff would write; whoever says --no-fix must be able to rely on it
        (said.fix is False and said.fix_only, "--no-fix", "--fix-only"),
    )
    for both, one, other in pairs:
        if both:
            raise click.UsageError(f"{one} and {other} cannot be used together.")


def chosen(said: FixChoice, configured: FixChoice, *, diff: bool) -> Fixing:
    """`--diff` writes nothing whatever else is asked for; `--fix-only` implies `--fix`."""
    choice = said.over(configured)
    only = choice.fix_only and said.fix is not False
    mode = Mode.DIFF if diff else Mode.FIX_ONLY if only else Mode.FIX if choice.fix else Mode.CHECK
    return Fixing(mode, bool(choice.unsafe_fixes), bool(choice.show_fixes))
