"""Windows of micro-batches: who divides the loss, and where a window ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gradlint.events import Backward, Edit, Site, Step
from gradlint.model import FixSafety
from gradlint.remedy import Remedy

if TYPE_CHECKING:
    from gradlint.rewrite.bench import Bench


def divide_loss(backward: Backward, step: Step, n: str) -> Remedy:
    """`(loss / n).backward()`, by the N that the boundary uses; `n` is what to call it."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.divide import divide_by_window

        divide_by_window(bench, backward, step)

    return Remedy(f"Divide the loss by {n}", act)


def divide_by_window_instead(backward: Backward, step: Step, n: str) -> Remedy:
    """Another divisor in the place of the one that is there; not safe, for it may be a mean over several terms."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.boundary import size_of_window
        from gradlint.rewrite.divide import redivide

        redivide(bench, backward, size_of_window(bench, backward, step))

    return Remedy(f"Divide the loss by {n} instead of `{backward.divisor}`", act, FixSafety.UNSAFE)


def divide_losses_not_gradients(edits: Sequence[Edit], backwards: Sequence[Backward], by: str) -> Iterator[Remedy]:
    """The loop that divides gradients goes, or the call of the function that has it; the loss is divided instead."""

    def at(outer: int) -> Callable[[Bench], None]:
        def act(bench: Bench) -> None:
            from gradlint.rewrite.divide import divide_not_gradients

            divide_not_gradients(bench, edits, backwards, outer)

        return act

    for outer in reversed(range(len(edits[0].via) + 1)):
        yield Remedy(f"Divide the loss by `{by}` instead of the gradients", at(outer))


def undivide_loss(loss: Backward | Site, divisor: str) -> Remedy:
    """Of a loss that goes backward here, or of the division at this place."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.divide import undivide, undivide_at

        if isinstance(loss, Site):
            undivide_at(bench, loss)
        else:
            undivide(bench, loss)

    return Remedy(f"Drop the division by `{divisor}`", act)


def count_from_one(step: Step, *, everywhere: bool = False) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.boundary import count_from_one

        count_from_one(bench, step, everywhere=everywhere)

    return Remedy("Count micro-batches from one", act)


def step_at_the_end(step: Step) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.boundary import step_at_the_end

        step_at_the_end(bench, step)

    return Remedy("Step at the end of the loader, too", act)
