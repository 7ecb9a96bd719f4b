"""The gradient norm of every layer over the steps, as a map; what is not a number is marked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gradlint.runtime.page.text import Markup, number, shortened, tag

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
        tag("g", tag("title", _told(name, values)), _strip(at, tall), class_="event")
        for at, (name, values) in enumerate(rows.items())
    ]
    return tag(
        "svg", *names, *cells, *_steps(steps, wide, height), *hover, class_="heat",
        viewBox=f"0 0 {_WIDTH} {height:g}", role="img",
        aria_label=f"Gradient norms of {len(rows)} layers, steps {steps[0]} to {steps[-1]}; the table has the numbers",
    )  # fmt: skip


def _strip(at: int, tall: float) -> Markup:
    return tag("rect", class_="hit", x=0, y=_TOP + tall * at, width=_WIDTH - 8, height=tall)


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
