"""The numbers of one iteration that are worth a glance below its picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gradlint.runtime.page.cast import Cast
from gradlint.runtime.page.words import number, numbers
from gradlint.runtime.recording import (
    BackwardRan,
    Clipped,
    Gradient,
    Happening,
    Scheduled,
    Stepped,
    Synced,
    Zeroed,
)


@dataclass(frozen=True, slots=True)
class Tally:
    """One number, or a few; `what` says which."""

    what: str
    text: str
    value: float
    #: it is clearly another one than that of the other run
    differs: bool = False


def tallies(happenings: Sequence[Happening], cast: Cast) -> list[Tally]:
    found: list[Tally] = []
    for player in cast.players.values():
        mine = [h for h in happenings if player.id in (*h.optimizers, getattr(h, "owner", ""))]
        whose = f" · {player.letter}" if cast.several else ""
        found += _norms(mine, player.id, whose)
        if any(isinstance(h, Stepped) for h in mine):
            found += _counts(mine, whose)
    found += _scales(happenings)
    found += _one("exchanges between ranks", sum(isinstance(h, Synced) for h in happenings), 0)
    return found


def compared(one: Sequence[Tally], other: Sequence[Tally]) -> list[Tally]:
    """With those set off that the other run has otherwise."""
    theirs = {t.what: t.value for t in other}
    return [Tally(t.what, t.text, t.value, _differ(t.value, theirs.get(t.what))) for t in one]


def used(step: Stepped) -> Gradient | None:
    """The gradients that a step used."""
    return step.before_of(step.owner) or step.gradient_of(step.owner)


def _norms(mine: Sequence[Happening], identity: str, whose: str) -> list[Tally]:
    found = []
    clips = [h for h in mine if isinstance(h, Clipped) and h.how == "norm" and h.limit is not None]
    if clips and (gradient := clips[-1].before_of(identity)) is not None:
        found.append(_tally(f"norm before the clip{whose}", gradient.true))
    steps = [h for h in mine if isinstance(h, Stepped) and h.owner == identity]
    at_step = [gradient.true for step in steps if (gradient := used(step)) is not None]
    if at_step:
        found.append(Tally(f"norm at the step{whose}", numbers(at_step), at_step[-1]))
    if clips and clips[-1].limit is not None:
        found.append(_tally(f"max_norm{whose}", clips[-1].limit))
    return found


def _counts(mine: Sequence[Happening], whose: str) -> list[Tally]:
    """Only what is not the usual one per step."""
    steps = sum(isinstance(h, Stepped) for h in mine)
    skipped = sum(isinstance(h, Stepped) and h.skipped for h in mine)
    return [
        *_one(f"backwards{whose}", sum(isinstance(h, BackwardRan) for h in mine), 1),
        *_one(f"clips{whose}", sum(isinstance(h, Clipped) for h in mine), 1, 0),
        *_one(f"times cleared{whose}", sum(isinstance(h, Zeroed) for h in mine), 1),
        *_one(f"scheduler steps{whose}", sum(isinstance(h, Scheduled) for h in mine), 1, 0),
        *_one(f"steps{whose}", steps, 1),
        *_one(f"skipped steps{whose}", skipped, 0),
    ]


def _scales(happenings: Sequence[Happening]) -> list[Tally]:
    scales = [h.scale for h in happenings if isinstance(h, BackwardRan) and h.scaler]
    return [Tally("scale", numbers(scales), scales[-1])] if scales else []


def _one(what: str, count: int, *usual: int) -> list[Tally]:
    return [] if count in usual else [_tally(what, count)]


def _tally(what: str, value: float) -> Tally:
    return Tally(what, number(value), value)


def _differ(one: float, other: float | None) -> bool:
    if other is None:
        return True
    return not math.isclose(one, other, rel_tol=0.05) and not (math.isnan(one) and math.isnan(other))
