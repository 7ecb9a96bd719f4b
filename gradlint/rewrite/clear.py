"""Puts the clearing of gradients and the step of the optimizer in their places."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradlint.events import BEHIND_STEP, Backward, Clip, Edit, Event, Read, Step, Unscale, Update
from gradlint.rewrite.calls import optimizer_of
from gradlint.rewrite.moving import move

if TYPE_CHECKING:
    from gradlint.rewrite.bench import Bench


def clear_first(bench: Bench, backward: Backward, step: Step) -> None:
    """At the head of the loop that runs both; without one, in front of the backward."""
    code = _zero(bench, step)
    loop = bench.common_loop(backward, step)
    if loop is not None:
        bench.insert_first(code, loop)
    else:
        bench.insert(code, before=backward)


def clear_behind(bench: Bench, step: Step) -> None:
    bench.insert(_zero(bench, step), after=step, past=BEHIND_STEP)


def _zero(bench: Bench, step: Step) -> str:
    """In the style of the file: with the arguments that its other calls have, if they all have the same."""
    styles = set(re.findall(r"\.zero_grad\(([^()]*)\)", bench.document.module.code))
    arguments = styles.pop() if len(styles) == 1 else ""
    return f"{optimizer_of(bench, step)}.zero_grad({arguments})"


def step_behind(bench: Bench, step: Step, backward: Backward, followers: Sequence[Event]) -> None:
    move(bench, step, after=backward, past=(Unscale, Clip, Edit, Read))
    for follower in followers:
        move(bench, follower, after=step, past=(Update,))
