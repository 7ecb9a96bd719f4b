"""Plots over steps, drawn as SVG: lines, limits, and what cannot be drawn as a number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median_low

from gradlint.runtime.page.render import Markup, number, numbers, tag

#: looks of groups that there are
COLOURS = 5
#: beyond this ratio a plot is logarithmic
_DECADES = 100.0
#: decades below the median that a logarithmic plot shows at most
_BELOW = 6


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values; `log` if it spans decades."""

    low: float
    high: float
    log: bool = False

    def share(self, value: float) -> float:
        """0 at the low end, 1 at the high one; what lies outside stands at the edge."""
        if self.log:
            if value <= 0:
                return 0.0
            part = (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        else:
            part = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, part))

    def ticks(self, most: int = 5) -> list[float]:
        return _decades(self.low, self.high, most) if self.log else _even(self.low, self.high, most)


def value_axis(values: Iterable[float], *, from_zero: bool = True, may_log: bool = True) -> Axis:
    """Round the finite values, with a little room."""
    finite = [v for v in values if math.isfinite(v)]
    positive = [v for v in finite if v > 0]
    if may_log and positive and max(positive) / min(positive) > _DECADES and min(finite) >= 0:
        first, last = math.floor(math.log10(min(positive)) - 0.1), math.ceil(math.log10(max(positive)) + 0.1)
        # One that is all but 0 stands at the lower edge: it must not squeeze the others together.
        first = max(first, min(math.floor(math.log10(median_low(positive))), 300) - _BELOW)
        return Axis(10.0 ** max(first, -300), 10.0 ** min(last, 300), log=True)
    if not finite:
        return Axis(0.0, 1.0)
    low, high = min(finite), max(finite)
    if from_zero and low >= 0:
        return Axis(0.0, high * 1.12 or 1.0)
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    return Axis(low - room, high + room)


def step_axis(steps: Iterable[int]) -> Axis:
    seen = list(steps)
    low, high = min(seen, default=1), max(seen, default=1)
    return Axis(low - 0.5, high + 0.5) if low == high else Axis(low, high)


def whole_ticks(axis: Axis) -> list[float]:
    """Ticks for things that are counted."""
    low, high = math.ceil(axis.low), math.floor(axis.high)
    width = max(1, round(_nice((high - low) / 8)))
    start = -(-low // width) * width
    ticks = list(range(start, high + 1, width))
    if ticks[:1] != [low] and (not ticks or ticks[0] - low >= width * 0.6):
        ticks.insert(0, low)
    return [float(t) for t in ticks]


def _even(low: float, high: float, most: int) -> list[float]:
    width = _nice((high - low) / most)
    first = math.ceil(low / width - 1e-9)
    return [n * width for n in range(first, math.floor(high / width + 1e-9) + 1)]


def _decades(low: float, high: float, most: int) -> list[float]:
    first, last = round(math.log10(low)), round(math.log10(high))
    width = max(1, -(-(last - first) // most))
    return [10.0**n for n in range(first, last + 1, width)]


def _nice(width: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    if width <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(width))
    return next(nice * power for nice in (1, 2, 5, 10) if nice * power >= width * 0.999)


# -- plots -------------------------------------------------------------------------------------------------------------


WIDTH, HEIGHT = 520, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 16, 22, 34
#: more points than this are drawn as a line only, and thinned out to the extremes of as many stretches
_DOTS = 40
_STRETCHES = 240
#: the room that a letter needs
_LETTER = 8
#: marks of skipped steps that are drawn one by one; of more, one for each stretch
_MARKS = 120


@dataclass(frozen=True, slots=True)
class Curve:
    """One line. `look` is its class in the page: main, faint, limit, alarm, or g0 … g4 for groups."""

    name: str
    look: str
    points: tuple[tuple[int, float], ...]
    #: the value holds until the next one: limits, scales, learning rates
    level: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """What one plot shows."""

    label: str
    curves: tuple[Curve, ...]
    #: steps that the scaler skipped
    skipped: tuple[int, ...] = ()
    heading: str = ""


@dataclass(slots=True)
class Plot:
    """Charts beside each other, on the same axes."""

    title: str
    charts: list[Chart]
    note: str = ""
    from_zero: bool = True
    #: learning rates are read on an even scale, whatever they span
    may_log: bool = True
    pictures: list[tuple[str, Markup]] = field(default_factory=list)
    #: name and look of each curve, and the signs that occur
    legend: list[tuple[str, str]] = field(default_factory=list)

    def draw(self) -> Plot:
        values = [y for chart in self.charts for curve in chart.curves for _, y in curve.points]
        steps = [x for chart in self.charts for curve in chart.curves for x, _ in curve.points]
        steps += [x for chart in self.charts for x in chart.skipped]
        axes = step_axis(steps), value_axis(values, from_zero=self.from_zero, may_log=self.may_log)
        self.pictures = [(chart.heading, _drawn(chart, *axes)) for chart in self.charts]
        self.legend = list(dict.fromkeys((c.name, c.look) for chart in self.charts for c in chart.curves))
        if any(not math.isfinite(v) for v in values):
            self.legend.append(("NaN or Inf", "odd"))
        if any(chart.skipped for chart in self.charts):
            self.legend.append(("skipped by the scaler", "skip"))
        return self


@dataclass(slots=True)
class Plots:
    """Those that show something, and in words what never changed."""

    drawn: list[Plot] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)

    def add(self, plot: Plot, *, always: bool = False) -> None:
        """Nothing is said without a point; `always`: drawn even if it never changes."""
        curves = [curve for chart in plot.charts for curve in chart.curves]
        values = [y for curve in curves for _, y in curve.points]
        if values and (always or any(len({y for _, y in curve.points}) > 1 for curve in curves)):
            self.drawn.append(plot.draw())
        elif values:
            self.constants.append(f"{plot.title}: {numbers(values)} throughout")


class _Ground:
    """The plane of one plot."""

    def __init__(self, across: Axis, up: Axis) -> None:
        self.across, self.up = across, up

    def x(self, step: float) -> float:
        return _LEFT + 8 + (WIDTH - _LEFT - _RIGHT - 16) * self.across.share(step)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * self.up.share(value)

    def grid(self) -> Iterable[Markup]:
        for value in self.up.ticks():
            y = self.y(value)
            yield tag("path", class_="grid", d=f"M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}")
            yield tag("text", number(value), class_="tick value", x=_LEFT - 8, y=y + 4)
        base = HEIGHT - _BOTTOM
        for step in whole_ticks(self.across):
            yield tag("text", number(step), class_="tick", x=self.x(step), y=base + 17)
        yield tag("path", class_="base", d=f"M{_LEFT} {base}H{WIDTH - _RIGHT}")


def _drawn(chart: Chart, across: Axis, up: Axis) -> Markup:
    ground = _Ground(across, up)
    every = -(-len(chart.skipped) // _MARKS) or 1
    parts = [*ground.grid(), *(_skip(ground, step) for step in chart.skipped[::every])]
    # limits last: a norm that is clipped in every step lies right on its limit, and both must be seen
    for curve in sorted(chart.curves, key=lambda curve: curve.look in ("limit", "alarm")):
        parts += _curve(ground, curve)
    parts += _odd(ground, chart)
    parts.append(tag("text", "log scale" if up.log else "", class_="axis", x=_LEFT, y=12))
    parts.append(tag("text", "step", class_="axis end", x=WIDTH - _RIGHT, y=HEIGHT - 3))
    return tag("svg", *parts, class_="plot", viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=_spoken(chart))


def _curve(ground: _Ground, curve: Curve) -> list[Markup]:
    finite = [(x, y) for x, y in curve.points if math.isfinite(y)]
    if not finite:
        return []
    parts = [tag("path", class_=f"curve {curve.look}", d=_path(ground, curve))]
    if not curve.level and len(finite) <= _DOTS:
        for x, y in finite:
            title = tag("title", f"step {x}\n{curve.name}: {number(y)}")
            zero = " zero" if ground.up.log and y <= 0 else ""
            across, up = ground.x(x), ground.y(y)
            hit = tag("circle", class_="hit", r=11, cx=across, cy=up)
            point = tag("circle", class_=f"point {curve.look}{zero}", r=3.4, cx=across, cy=up)
            parts.append(tag("g", title, hit, point, class_="event"))
    return parts


def _path(ground: _Ground, curve: Curve) -> str:
    """Broken where a value is not finite."""
    pieces: list[str] = []
    pen_down = False
    for x, y in _thinned(curve.points):
        if not math.isfinite(y):
            pen_down = False
            continue
        at = f"{ground.x(x):.1f} {ground.y(y):.1f}"
        if not pen_down:
            pieces.append(f"M{at}")
        elif curve.level:
            pieces.append(f"H{ground.x(x):.1f}V{ground.y(y):.1f}")
        else:
            pieces.append(f"L{at}")
        pen_down = True
    if curve.level and len({x for x, _ in curve.points}) == 1:
        pieces.append(f"H{WIDTH - _RIGHT - 2}")
    return "".join(pieces)


def _thinned(points: Sequence[tuple[int, float]]) -> Sequence[tuple[int, float]]:
    """Of many points the lowest and the highest of each stretch, and all that are not finite."""
    if len(points) <= 2 * _STRETCHES:
        return points
    kept: list[tuple[int, float]] = []
    for n in range(_STRETCHES):
        stretch = points[n * len(points) // _STRETCHES : (n + 1) * len(points) // _STRETCHES]
        finite = [p for p in stretch if math.isfinite(p[1])]
        odd = [p for p in stretch if not math.isfinite(p[1])][:1]
        ends = [min(finite, key=lambda p: p[1]), max(finite, key=lambda p: p[1])] if finite else []
        kept += sorted({*ends, *odd}, key=lambda p: p[0])
    return kept


def _odd(ground: _Ground, chart: Chart) -> list[Markup]:
    """NaN and Inf, at the top edge: one cross for each step, and words only where they do not touch each other."""
    found: dict[int, dict[str, float]] = {}
    for curve in chart.curves:
        for x, y in _thinned(curve.points):
            if not math.isfinite(y):
                found.setdefault(x, {})[curve.name] = y
    parts = []
    free = -math.inf
    for x, values in sorted(found.items()):
        at, top = ground.x(x), _TOP - 4
        said = ", ".join(dict.fromkeys(number(y) for y in values.values()))
        room = _LETTER * len(said) / 2
        cross = tag("path", class_="odd", d=f"M{at - 4:.1f} {top - 4}l8 8m0 -8l-8 8")
        title = tag("title", "\n".join((f"step {x}", *(f"{name}: {number(y)}" for name, y in values.items()))))
        words = []
        if at - room > free:
            free = at + room
            words = [tag("text", said, class_="oddtext", x=at, y=top - 7)]
        parts.append(tag("g", title, cross, *words, class_="event"))
    return parts


def _skip(ground: _Ground, step: int) -> Markup:
    x, base = ground.x(step), HEIGHT - _BOTTOM
    title = tag("title", f"step {step} was skipped by the scaler")
    line = tag("path", class_="skip", d=f"M{x:.1f} {_TOP}V{base}")
    return tag("g", title, line, tag("path", class_="skiphead", d=f"M{x - 4:.1f} {base}l4 -7l4 7z"), class_="event")


def _spoken(chart: Chart) -> str:
    parts = []
    for curve in chart.curves:
        finite = [y for _, y in curve.points if math.isfinite(y)]
        odd = len(curve.points) - len(finite)
        range_ = f"{number(min(finite))} to {number(max(finite))}" if finite else "no finite value"
        parts.append(f"{curve.name}: {range_}{f', {odd} not finite' if odd else ''}")
    skipped = f"; {len(chart.skipped)} skipped" if chart.skipped else ""
    return f"{chart.label}. {'; '.join(parts)}{skipped}"
