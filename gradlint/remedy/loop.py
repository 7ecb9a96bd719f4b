"""The order of a plain training loop: clear, backward, step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradlint.remedy import Remedy

if TYPE_CHECKING:
    from gradlint.events import Backward, Event, Step, Zero
    from gradlint.rewrite.bench import Bench


def clear_first(backward: Backward, steps: Sequence[Step], *, close: bool = False) -> Remedy:
    """`optimizer.zero_grad()` at the head of the loop; in a function for one batch, or if `close`, in front of the
    backward."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.clear import clear_first

        clear_first(bench, backward, steps, close=close)

    return Remedy("Clear the gradients before the backward", act)


def clear_behind_window(zero: Zero, step: Step) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.clear import clear_behind_window

        clear_behind_window(bench, zero, step)

    return Remedy("Move the clearing behind the step", act)


def clear_behind(step: Step) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.clear import clear_behind

        clear_behind(bench, step)

    return Remedy("Clear the gradients behind the step", act)


def step_behind(step: Step, backward: Backward, followers: Sequence[Event]) -> Remedy:
    """The step goes behind the backward; what must follow it (update, scheduler) goes with it."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.clear import step_behind

        step_behind(bench, step, backward, followers)

    return Remedy("Move the step behind the backward", act)
