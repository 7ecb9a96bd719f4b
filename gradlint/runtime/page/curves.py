"""What a run's numbers did over its steps: norms, scale, learning rate; and all ranks side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from gradlint.runtime.measure import APART, spread
from gradlint.runtime.page.chart import COLOURS, Chart, Curve, Plot, Plots
from gradlint.runtime.page.render import number
from gradlint.runtime.page.words import Optimizers
from gradlint.runtime.recording import BackwardRan, Clipped, Recording, Stepped, Synced


@dataclass(slots=True)
class _Track:
    """One optimizer's steps in one run, and what led to each."""

    steps: list[Stepped] = field(default_factory=list)
    #: by the number of the step
    clips: dict[int, Clipped] = field(default_factory=dict)
    scales: dict[int, float] = field(default_factory=dict)
    #: the mean of the losses of its backwards, each before it was divided for accumulation
    losses: dict[int, float] = field(default_factory=dict)

    @property
    def skipped(self) -> tuple[int, ...]:
        return tuple(s.number for s in self.steps if s.skipped)


def curves(runs: Sequence[tuple[str, Recording, Optimizers]]) -> Plots:
    """`runs`: a heading, the run, and its optimizers."""
    found = Plots()
    optimizers = {o.id: o for _, _, own in reversed(runs) for o in own.by_id.values()}
    for identity in dict.fromkeys(i for _, _, own in runs for i in own.by_id):
        tracks = [(name, _track(recording, identity)) for name, recording, _ in runs]
        if not any(track.steps for _, track in tracks):
            continue
        whose = f" · {optimizers[identity].text}" if len(optimizers) > 1 else ""
        kinds = (_norms, _losses, _rates, _scales)
        norms, losses, rates, scales = ([kind(name, track) for name, track in tracks] for kind in kinds)
        found.add(Plot(f"Gradient norm{whose}", norms, "true units, one point per step"), always=True)
        found.add(Plot(f"Loss{whose}", losses, "mean over the backwards of a step", from_zero=False))
        found.add(Plot(f"Learning rate{whose}", rates, may_log=False))
        if identity == next(iter(optimizers)):  # one scaler serves all optimizers; it is shown once
            found.add(Plot("Scale", scales))
    return found


def _track(recording: Recording, identity: str) -> _Track:
    track = _Track()
    clip: Clipped | None = None
    scale: float | None = None
    losses: list[float] = []
    for happening in recording.happenings:
        if isinstance(happening, Clipped) and identity in happening.optimizers:
            clip = happening
        elif isinstance(happening, BackwardRan):
            scale = happening.scale if happening.scaler else scale
            if happening.loss is not None and identity in happening.optimizers:
                losses.append(happening.loss / (happening.factor or 1.0))
        elif isinstance(happening, Stepped) and happening.owner == identity:
            track.steps.append(happening)
            if clip is not None:
                track.clips[happening.number] = clip
            if scale is not None:
                track.scales[happening.number] = scale
            if losses:
                track.losses[happening.number] = sum(losses) / len(losses)
            clip, losses = None, []
    return track


def _norms(name: str, track: _Track) -> Chart:
    at_step = [(s.number, s.used.true) for s in track.steps if s.used is not None]
    clips = {n: c for n, c in track.clips.items() if c.how == "norm" and c.limit is not None}
    before = [(n, g.true) for n, c in clips.items() for g in c.before if g.optimizer == _owner(track)]
    limits = [(n, c.limit) for n, c in clips.items() if c.limit is not None and math.isfinite(c.limit)]
    acting = [(n, limit) for n, c in clips.items() if (limit := _acting(c, _owner(track))) is not None]
    found = [
        _level("max_norm", "limit", limits),
        _level("limit that really acted: max_norm / scale", "alarm", acting),
        Curve("before the clip", "faint", tuple(before)),
        Curve("at the step", "main", tuple(at_step)),
    ]
    return _run_chart("Gradient norm", name, track, found)


def _acting(clip: Clipped, identity: str) -> float | None:
    """The limit in true units, where the clip saw scaled gradients."""
    gradient = clip.before_of(identity) or clip.gradient_of(identity)
    if gradient is None or gradient.scale in (0.0, 1.0) or clip.limit is None or clip.unscales:
        return None
    return clip.limit / gradient.scale


def _rates(name: str, track: _Track) -> Chart:
    most = max((len(s.rates) for s in track.steps), default=0)
    groups = [tuple((s.number, s.rates[g]) for s in track.steps if g < len(s.rates)) for g in range(most)]
    distinct = list(dict.fromkeys(groups))
    found: list[Curve] = []
    for points in distinct:
        alike = [str(g) for g, other in enumerate(groups) if other == points]
        title = (
            "learning rate" if len(distinct) == 1 else f"group {', '.join(alike[:4])}{'…' if len(alike) > 4 else ''}"
        )
        found.append(Curve(title, f"g{len(found) % COLOURS}", points, level=True))
    return _run_chart("Learning rate", name, track, found[:COLOURS])


def _losses(name: str, track: _Track) -> Chart:
    return _run_chart("Loss", name, track, [Curve("loss", "main", tuple(sorted(track.losses.items())))])


def _scales(name: str, track: _Track) -> Chart:
    return _run_chart("Scale", name, track, [Curve("scale", "main", tuple(sorted(track.scales.items())), level=True)])


def _level(name: str, look: str, points: Sequence[tuple[int, float]]) -> Curve:
    values = {y for _, y in points}
    constant = f"{' =' if look == 'alarm' else ''} {number(points[0][1])}" if len(values) == 1 else ""
    return Curve(f"{name}{constant}", look, tuple(points), level=True)


def _run_chart(title: str, name: str, track: _Track, found: Sequence[Curve]) -> Chart:
    return Chart(f"{title}, {name.lower()}", tuple(curve for curve in found if curve.points), track.skipped, name)


def _owner(track: _Track) -> str:
    return track.steps[0].owner if track.steps else ""


# -- ranks side by side ------------------------------------------------------------------------------------------------


#: its number, its steps and exchanges, norms of the last common gradient and of the weights, whether it agrees
Rank = tuple[int, int, int, float | None, float | None, bool]


def ranks(sides: Sequence[tuple[str, Sequence[Recording]]]) -> tuple[list[tuple[str, list[Rank]]], Plot | None]:
    """The tables, each with its heading, and the plot; nothing for a run of one rank."""
    several = [(heading, _by_rank(recordings)) for heading, recordings in sides]
    several = [(heading, members) for heading, members in several if len(members) > 1]
    if not several:
        return [], None
    charts = [_chart(heading, members) for heading, members in several]
    shown = max(len(chart.curves) for chart in charts)
    most = max(len(members) for _, members in several)
    note = "at the step, true units" + (f"; the first {shown} of {most} ranks" if shown < most else "")
    tables = [(heading, _rank_lines(members)) for heading, members in several]
    return tables, Plot("Gradient norm by rank", charts, note).draw()


def _by_rank(recordings: Sequence[Recording]) -> list[Recording]:
    """Of each rank the process that trained most."""
    found: dict[int, Recording] = {}
    for recording in recordings:
        if recording.steps and recording.steps > (found[recording.rank].steps if recording.rank in found else 0):
            found[recording.rank] = recording
    return [found[rank] for rank in sorted(found)]


def _first_owner(recording: Recording) -> list[Stepped]:
    return recording.steps_of(next(recording.of(Stepped)).owner)


def _chart(heading: str, members: Sequence[Recording]) -> Chart:
    curves = []
    for at, member in enumerate(members[:COLOURS]):
        points = tuple((s.number, s.used.true) for s in _first_owner(member) if s.used is not None)
        curves.append(Curve(f"rank {member.rank}", f"g{at}", points))
    skipped = tuple(s.number for s in _first_owner(members[0]) if s.skipped)
    return Chart(f"Gradient norm by rank, {heading.lower()}", tuple(c for c in curves if c.points), skipped, heading)


def _rank_lines(members: Sequence[Recording]) -> list[Rank]:
    last = min(len(_first_owner(member)) for member in members)
    ends = [_first_owner(member)[last - 1] for member in members]
    return [
        (
            member.rank,
            member.steps,
            sum(1 for _ in member.of(Synced)),
            end.used.true if end.used is not None else None,
            None if end.weights is None else end.weights[0],
            _agree(end, ends[0]),
        )
        for member, end in zip(members, ends, strict=True)
    ]


def _agree(one: Stepped, other: Stepped) -> bool:
    difference = spread([one.weights, other.weights])
    return difference is None or difference <= APART  # shards differ, as they should
