"""The page of a `GradientMonitor`: what its template is given, and the norm of every layer over the steps as a map."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from gradlint.model import Severity, counted
from gradlint.runtime.monitor.data import Clip, ClipVerdict, Finding, Layer, MonitorData, Sample
from gradlint.runtime.page.chart import COLOURS, Chart, Curve, Plot, Plots
from gradlint.runtime.page.render import Badge, Markup, number, render, shortened, tag

LEVELS = 9
_NAN, _ZERO = LEVELS, LEVELS + 1
_LOOKS = [f"heat{n}" for n in range(LEVELS)] + ["heat-nan", "heat-zero"]
#: more rows than this cannot be told apart: parameters are put together by module
_MOST_ROWS = 160
_MOST_COLUMNS = 120
_LEFT, _WIDTH, _TOP, _BOTTOM = 216, 1080, 6, 24
_TALLEST, _LOWEST, _WANTED = 18.0, 4.0, 560.0
_LETTERS = 30


@dataclass(frozen=True, slots=True)
class Heat:
    """The map and what its colours mean."""

    svg: Markup
    low: str
    high: str
    levels: tuple[str, ...]
    rows: int
    #: the rows are modules, each with the norm over all of its parameters
    grouped: bool
    odd: bool
    zero: bool


def heat(steps: Sequence[int], layers: Mapping[str, Sequence[float | None]]) -> Heat | None:
    """`layers`: for each parameter its norm in each sample; None where it had none."""
    if not steps or not layers:
        return None
    rows = grouped(layers)
    columns, rows = _narrowed(list(steps), rows)
    finite = [v for values in rows.values() for v in values if v is not None and math.isfinite(v) and v > 0]
    low, high = (min(finite), max(finite)) if finite else (1.0, 1.0)
    levels = {name: [_level(v, low, high) for v in values] for name, values in rows.items()}
    seen = {level for values in levels.values() for level in values}
    return Heat(
        _drawn(columns, rows, levels), number(low), number(high), tuple(_LOOKS[:LEVELS]), len(rows),
        len(rows) < len(layers), _NAN in seen, _ZERO in seen,
    )  # fmt: skip


def grouped(layers: Mapping[str, Sequence[float | None]]) -> dict[str, list[float | None]]:
    """By module, as deep as there is room; the norm of a module is that of all its parameters together."""
    names = list(layers)
    deepest = max(name.count(".") for name in names) + 1
    for depth in range(deepest, 0, -1):
        groups: dict[str, list[str]] = {}
        for name in names:
            groups.setdefault(".".join(name.split(".")[:depth]), []).append(name)
        if len(groups) <= _MOST_ROWS:
            break
    else:  # a flat list of parameters: neighbours together
        size = -(-len(names) // _MOST_ROWS)
        chunks = [names[n : n + size] for n in range(0, len(names), size)]
        groups = {f"{chunk[0]} … {chunk[-1]}": chunk for chunk in chunks}
    return {
        name: [_together(at) for at in zip(*(layers[member] for member in members), strict=True)]
        for name, members in groups.items()
    }


def _together(norms: Sequence[float | None]) -> float | None:
    known = [n for n in norms if n is not None]
    return math.hypot(*known) if known else None


def _narrowed(steps: list[int], rows: dict[str, list[float | None]]) -> tuple[list[int], dict[str, list[float | None]]]:
    """Of neighbouring samples the largest: one that is not a number is the largest of all."""
    if len(steps) <= _MOST_COLUMNS:
        return steps, rows
    cuts = [n * len(steps) // _MOST_COLUMNS for n in range(_MOST_COLUMNS + 1)]
    parts = list(pairwise(cuts))
    return [steps[a] for a, _ in parts], {n: [_largest(values[a:b]) for a, b in parts] for n, values in rows.items()}


def _largest(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return next((v for v in known if not math.isfinite(v)), max(known)) if known else None


def _level(value: float | None, low: float, high: float) -> int | None:
    if value is None:
        return None
    if not math.isfinite(value):
        return _NAN
    if value <= 0:
        return _ZERO
    if low == high:
        return LEVELS // 2
    share = math.log(value / low) / math.log(high / low)
    return min(LEVELS - 1, int(share * LEVELS))


def _drawn(
    steps: Sequence[int], rows: Mapping[str, Sequence[float | None]], levels: Mapping[str, Sequence[int | None]]
) -> Markup:
    tall = min(_TALLEST, max(_LOWEST, _WANTED / len(rows)))
    wide = (_WIDTH - _LEFT - 8) / len(steps)
    height = _TOP + tall * len(rows) + _BOTTOM
    every = math.ceil(11 / tall)
    names = [
        tag("text", _ending(name), class_="name", x=_LEFT - 8, y=_TOP + tall * (at + 0.5) + 4)
        for at, name in enumerate(rows)
        if at % every == 0
    ]
    place = f"translate({_LEFT} {_TOP}) scale({wide:.4f} {tall:.4f})"
    cells = [tag("path", class_=_LOOKS[level], d=d, transform=place) for level, d in _paths(levels).items()]
    hover = [
        tag(
            "g",
            tag("title", _told(name, values)),
            tag("rect", class_="hit", x=0, y=_TOP + tall * at, width=_WIDTH - 8, height=tall),
            class_="event",
        )
        for at, (name, values) in enumerate(rows.items())
    ]
    return tag(
        "svg", *names, *cells, *_steps(steps, wide, height), *hover, class_="heat",
        viewBox=f"0 0 {_WIDTH} {height:g}", role="img",
        aria_label=f"Gradient norms of {len(rows)} layers, steps {steps[0]} to {steps[-1]}; the table has the numbers",
    )  # fmt: skip


def _paths(levels: Mapping[str, Sequence[int | None]]) -> dict[int, str]:
    """One path for each colour; neighbours of one colour are one piece."""
    pieces: dict[int, list[str]] = {}
    for y, values in enumerate(levels.values()):
        x = 0
        while x < len(values):
            end = x
            while end < len(values) and values[end] == values[x]:
                end += 1
            level = values[x]
            if level is not None:
                pieces.setdefault(level, []).append(f"M{x} {y}h{end - x}v1h-{end - x}z")
            x = end
    return {level: "".join(pieces[level]) for level in sorted(pieces)}


def _steps(steps: Sequence[int], wide: float, height: float) -> list[Markup]:
    every = math.ceil(64 / wide)
    return [
        tag("text", str(step), class_="tick", x=_LEFT + wide * (at + 0.5), y=height - 8)
        for at, step in enumerate(steps)
        if at % every == 0
    ]


def _told(name: str, values: Sequence[float | None]) -> str:
    known = [v for v in values if v is not None]
    finite = [v for v in known if math.isfinite(v)]
    odd = len(known) - len(finite)
    range_ = (
        f"norm {number(min(finite))} to {number(max(finite))}, last {number(known[-1])}" if finite else "no finite norm"
    )
    return f"{name}\n{range_}{f', not finite in {odd}' if odd else ''}"


def _ending(name: str) -> str:
    """The end of a long name says more than its beginning."""
    return name if len(name) <= _LETTERS else "…" + shortened(name[-_LETTERS:], _LETTERS)


# -- the page ----------------------------------------------------------------------------------------------------------


_VERDICTS = {
    ClipVerdict.NEVER: Badge("never acts", "○", "calm"),
    ClipVerdict.SAFETY_NET: Badge("safety net", "✓", "cured"),
    ClipVerdict.OFTEN: Badge("limits many steps", "!", "open"),
    ClipVerdict.ALWAYS: Badge("limits every step", "!", "wrong"),
    ClipVerdict.UNKNOWN: Badge("not known", "–", "calm"),
}
#: layers that a finding names, and lines of the table of layers
_NAMED = 8
_MOST_LAYERS = 1000


def monitor_page(data: MonitorData) -> str:
    """The text of the page; the same data always give the same text."""
    shown = [s for s in data.samples if s.layers]
    lines = _layer_lines(shown)
    return render(
        "monitor.html",
        title=f"gradlint monitor: {data.model}",
        command=f"GradientMonitor · {data.model} · {data.optimizer}",
        headline=_headline(data),
        mood=_mood(data),
        summary="",
        about=_about(data),
        notes=data.notes,
        findings=[(f, _layers(f)) for f in data.findings],
        clips=[(c, _VERDICTS[c.verdict], _clip_facts(c)) for c in data.clips],
        curves=_plots(data),
        heat=heat([s.step for s in shown], _norms(shown)),
        label=shown[-1].label if shown else "",
        layers=lines[:_MOST_LAYERS],
        left_out=max(0, len(lines) - _MOST_LAYERS),
    )


def _headline(data: MonitorData) -> str:
    steps = counted(data.steps, "step")
    if not data.findings:
        return f"No trouble seen in {steps}" if data.seen else f"No gradient was seen in {steps}"
    kinds = list(dict.fromkeys(f.condition.value.replace("-", " ") for f in data.findings))
    return f"{counted(len(data.findings), 'finding')} in {steps}: {', '.join(kinds)}"


def _mood(data: MonitorData) -> str:
    worst = max((f.severity for f in data.findings), default=None)
    return "calm" if worst is None else "wrong" if worst is Severity.ERROR else "open"


def _about(data: MonitorData) -> list[tuple[str, str]]:
    about = [
        ("Model", data.model),
        ("Optimizer", data.optimizer),
        ("Parameters", f"{data.elements:,} in {counted(data.parameters, 'tensor')}".replace(",", "\u2009")),
        ("Steps", str(data.steps)),
        ("Sampled every", counted(data.every, "step")),
    ]
    if data.scaler or data.skipped:
        about.append(("Skipped by the scaler", str(data.skipped)))
    if data.seconds:
        about.append(("Watched for", f"{data.seconds:.0f} s"))
    return about


def _layers(finding: Finding) -> str:
    if all(name in finding.message for name in finding.layers):
        return ""
    named = [shortened(name, 80) for name in finding.layers[:_NAMED]]
    more = len(finding.layers) - len(named)
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def _clip_facts(clip: Clip) -> list[tuple[str, str]]:
    known = [
        ("limit", number(clip.limit)),
        ("median norm", number(clip.median) if clip.median is not None else ""),
        ("90th percentile", number(clip.percentile90) if clip.percentile90 is not None else ""),
        ("largest", number(clip.largest) if clip.largest is not None else ""),
        ("calls on scaled gradients", str(clip.scaled) if clip.scaled else ""),
        ("calls with NaN or Inf", str(clip.not_finite) if clip.not_finite else ""),
    ]
    return [(what, text) for what, text in known if text]


def _plots(data: MonitorData) -> Plots:
    samples, found = data.samples, Plots()
    losses = Curve("loss", "main", _points(samples, "loss"))
    scaled = any(sample.scale != 1.0 for sample in samples)
    scales = Curve("scale", "main", _points(samples, "scale") if scaled else (), level=True)
    found.add(Plot("Gradient norm", [_norm_chart(data)], samples[-1].label if samples else ""), always=True)
    found.add(Plot("Loss", [_chart("Loss", [losses])], from_zero=False), always=True)
    found.add(Plot("Learning rate", [_chart("Learning rate", _rates(samples))], may_log=False))
    found.add(Plot("Scale", [_chart("Scale", [scales])]))
    return found


def _norm_chart(data: MonitorData) -> Chart:
    samples = data.samples
    by_value = any("value" in clip.function for clip in data.clips)
    limits = [] if by_value else [(s.step, s.limit) for s in samples if s.limit is not None and math.isfinite(s.limit)]
    scaled = [(s.step, s.limit / s.scale) for s in samples if s.clip_scaled and s.limit is not None and s.scale]
    clipped = any(s.clipped is not None for s in samples)
    totals = tuple(data.totals) or _points(samples, "norm")
    constant = f" {number(limits[0][1])}" if len({y for _, y in limits}) == 1 else ""
    curves = [
        Curve(f"max_norm{constant}", "limit", tuple(limits), level=True),
        Curve("limit that really acted: max_norm / scale", "alarm", tuple(scaled), level=True),
        Curve("before the clip, every step" if clipped else "at every step", "faint" if clipped else "main", totals),
    ]
    if clipped:
        curves.append(Curve("after the clip, sampled", "main", _points(samples, "used")))
    return dataclasses.replace(_chart("Gradient norm", curves), skipped=tuple(data.skips))


def _rates(samples: Sequence[Sample]) -> list[Curve]:
    most = max((len(s.rates) for s in samples), default=0)
    groups = [tuple((s.step, s.rates[g]) for s in samples if g < len(s.rates)) for g in range(most)]
    distinct = list(dict.fromkeys(groups))[:COLOURS]
    names = ["learning rate"] if len(distinct) == 1 else [f"group {groups.index(points)}" for points in distinct]
    return [
        Curve(name, f"g{n}", points, level=True) for n, (name, points) in enumerate(zip(names, distinct, strict=True))
    ]


def _chart(title: str, curves: Sequence[Curve]) -> Chart:
    return Chart(title, tuple(curve for curve in curves if curve.points))


def _points(samples: Sequence[Sample], field: str) -> tuple[tuple[int, float], ...]:
    return tuple((s.step, value) for s in samples if (value := getattr(s, field)) is not None)


def _norms(samples: Sequence[Sample]) -> dict[str, list[float | None]]:
    """Each layer's norm in each sample; one that holds a NaN has no norm but NaN."""
    names = dict.fromkeys(layer.name for s in samples for layer in s.layers)
    known = [{layer.name: layer.norm if layer.finite else math.nan for layer in s.layers} for s in samples]
    return {name: [sample.get(name) for sample in known] for name in names}


def _layer_lines(samples: Sequence[Sample]) -> list[tuple[Layer, float | None, float | None]]:
    """Each layer as it was last, with the median and the largest of its norms."""
    last = {layer.name: layer for s in samples for layer in s.layers}
    lines = []
    for name, norms in _norms(samples).items():
        finite = [n for n in norms if n is not None and math.isfinite(n)]
        lines.append((last[name], median(finite) if finite else None, max(finite, default=None)))
    return lines
