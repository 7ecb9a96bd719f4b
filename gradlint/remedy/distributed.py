"""no_sync round the micro-batches that do not end a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.remedy import Remedy

if TYPE_CHECKING:
    from gradlint.events import Backward, Site, Step
    from gradlint.rewrite.bench import Bench


def wrap_in_no_sync(backward: Backward, step: Step) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.nosync import wrap

        wrap(bench, backward, step)

    return Remedy("Put forward and backward under no_sync, on all but the last micro-batch", act)


def pull_forward_in(backward: Backward) -> Remedy:
    def act(bench: Bench) -> None:
        from gradlint.rewrite.nosync import pull_forward_in

        pull_forward_in(bench, backward)

    return Remedy("Pull the forward into the no_sync block", act)


def invert_no_sync(backward: Backward, no_sync: Site | None, step: Step) -> Remedy:
    """The context, or without one the flag of the model, gets the opposite condition."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.nosync import invert, invert_flag

        if no_sync is None:
            invert_flag(bench, backward)
        else:
            invert(bench, backward, no_sync, step)

    return Remedy("Use no_sync before the boundary, not on it", act)


def ask_boundary(backward: Backward, no_sync: Site, step: Step) -> Remedy:
    """The condition of no_sync becomes that of the boundary."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.nosync import ask_boundary

        ask_boundary(bench, no_sync, step)

    return Remedy("Use no_sync exactly before the boundary", act)
