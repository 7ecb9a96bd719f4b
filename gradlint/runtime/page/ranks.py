"""All ranks of a run side by side: their norms in one plot, and whether their weights agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gradlint.runtime.page.cast import COLOURS
from gradlint.runtime.page.chart import Chart, Curve, Plot
from gradlint.runtime.page.tallies import used
from gradlint.runtime.page.words import number
from gradlint.runtime.recording import Recording, Stepped, Synced

#: weights whose norm and sum differ by less than this share are the same but for rounding
_SAME = 1e-6


@dataclass(frozen=True, slots=True)
class RankLine:
    """One line of the table."""

    rank: int
    steps: int
    exchanges: int
    norm: str
    weights: str
    agrees: bool


@dataclass(frozen=True, slots=True)
class Ranks:
    """One run."""

    heading: str
    lines: list[RankLine]


def ranks(sides: Sequence[tuple[str, Sequence[Recording]]]) -> tuple[list[Ranks], Plot | None]:
    """The tables, and the plot; nothing for a run of one rank."""
    several = [(heading, _by_rank(recordings)) for heading, recordings in sides]
    several = [(heading, members) for heading, members in several if len(members) > 1]
    if not several:
        return [], None
    charts = [_chart(heading, members) for heading, members in several]
    shown = max(len(chart.curves) for chart in charts)
    most = max(len(members) for _, members in several)
    note = "at the step, true units" + (f"; the first {shown} of {most} ranks" if shown < most else "")
    tables = [Ranks(heading, _lines(members)) for heading, members in several]
    return tables, Plot("Gradient norm by rank", charts, note).draw()


def _by_rank(recordings: Sequence[Recording]) -> list[Recording]:
    """Of each rank the process that trained most."""
    found: dict[int, Recording] = {}
    for recording in recordings:
        if recording.steps and recording.steps > (found[recording.rank].steps if recording.rank in found else 0):
            found[recording.rank] = recording
    return [found[rank] for rank in sorted(found)]


def _first_owner(recording: Recording) -> list[Stepped]:
    steps = list(recording.of(Stepped))
    return [step for step in steps if step.owner == steps[0].owner]


def _chart(heading: str, members: Sequence[Recording]) -> Chart:
    curves = []
    for at, member in enumerate(members[:COLOURS]):
        points = tuple((s.number, g.true) for s in _first_owner(member) if (g := used(s)) is not None)
        curves.append(Curve(f"rank {member.rank}", f"g{at}", points))
    skipped = tuple(s.number for s in _first_owner(members[0]) if s.skipped)
    return Chart(f"Gradient norm by rank, {heading.lower()}", tuple(c for c in curves if c.points), skipped, heading)


def _lines(members: Sequence[Recording]) -> list[RankLine]:
    last = min(len(_first_owner(member)) for member in members)
    ends = [_first_owner(member)[last - 1] for member in members]
    return [
        RankLine(
            member.rank,
            member.steps,
            sum(1 for _ in member.of(Synced)),
            number(g.true) if (g := used(end)) is not None else "–",
            "–" if end.weights is None else number(end.weights[0]),
            _agree(end, ends[0]),
        )
        for member, end in zip(members, ends, strict=True)
    ]


def _agree(one: Stepped, other: Stepped) -> bool:
    if one.weights is None or other.weights is None:
        return True  # shards differ, as they should
    size = max(abs(other.weights[0]), 1e-30)
    return all(math.isclose(a, b, abs_tol=_SAME * size) for a, b in zip(one.weights, other.weights, strict=True))
