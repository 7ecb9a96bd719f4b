"""Axes, curves and the map of layers: every value at its place, and nothing that breaks a plot."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest

from gradlint.model import counted
from gradlint.runtime.page.chart import (
    HEIGHT,
    WIDTH,
    Axis,
    Chart,
    Curve,
    Plot,
    Plots,
    step_axis,
    value_axis,
    whole_ticks,
)
from gradlint.runtime.page.curves import curves
from gradlint.runtime.page.monitor import grouped, heat
from gradlint.runtime.page.render import number, numbers, span
from gradlint.runtime.page.words import Optimizers, Places
from tests.runtime.page_examples import Run, amp_verification
from tests.runtime.page_reading import Element, read


def plot(*values: float, level: bool = False) -> Element:
    curve = Curve("at the step", "main", tuple(enumerate(values, 1)), level=level)
    (picture,) = Plot("Norm", [Chart("Norm", (curve,))]).draw().pictures
    return read(picture[1])


def drawn_points(svg: Element) -> list[tuple[float, float]]:
    return [(float(c.attributes["cx"]), float(c.attributes["cy"])) for c in svg.all("circle", "point")]


def test_more_than_two_decades_are_logarithmic() -> None:
    assert value_axis([1.0, 99.0]).log is False
    assert value_axis([1.0, 101.0]).log is True
    assert value_axis([-1.0, 1e6]).log is False
    assert value_axis([0.0, 1e-3, 5.0]).log is True


def test_an_outlier_does_not_squeeze_the_others() -> None:
    usual = [0.5, 1.0, 2.0, 1.5]
    high = value_axis([*usual, 15675.0])
    assert high.log
    assert high.share(2.0) - high.share(0.5) > 0.1
    low = value_axis([*usual * 4, 1e-30])
    assert low.share(1e-30) == 0
    assert low.share(2.0) - low.share(0.5) > 0.06


def test_words_for_values_that_are_not_finite_stand_apart() -> None:
    svg = plot(*[1.0] * 40, *[math.nan] * 20, *[1.0] * 40, math.inf)
    assert len(svg.all("path", "odd")) == 21
    places = [float(text.attributes["x"]) for text in svg.all("text", "oddtext")]
    assert {text.text for text in svg.all("text", "oddtext")} == {"NaN", "Inf"}
    assert all(right - left > 20 for left, right in pairwise(places))


@pytest.mark.parametrize(
    "values",
    [[], [math.nan], [0.0], [5.0], [5.0, 5.0], [-3.0, -3.0], [1e-30, 1e30], [1e-308, 1e308], [math.inf, 1.0], [1e-12]],
)
def test_axes_hold_their_values(values: list[float]) -> None:
    axis = value_axis(values)
    assert axis.low < axis.high
    assert all(0 <= axis.share(v) <= 1 for v in values if math.isfinite(v))
    ticks = axis.ticks()
    assert len(ticks) <= 8
    assert all(a < b for a, b in pairwise(ticks))


def test_even_ticks() -> None:
    assert Axis(0.0, 11.0).ticks() == [0, 5, 10]
    assert value_axis([1e-4, 10.0]).ticks() == pytest.approx([1e-5, 1e-3, 1e-1, 10.0])
    assert whole_ticks(step_axis(range(1, 9))) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert whole_ticks(step_axis(range(1, 4001))) == [1, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4000]
    assert whole_ticks(step_axis([7])) == [7]


def test_points_stand_in_the_picture_in_order() -> None:
    points = drawn_points(plot(1.0, 3.0, 2.0))
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert points[1][1] < points[2][1] < points[0][1]  # up is smaller in SVG
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)


def test_equal_shares_of_a_log_axis_are_equal_factors() -> None:
    ys = [y for _, y in drawn_points(plot(1e-4, 1e-2, 1.0))]
    assert ys[0] - ys[1] == pytest.approx(ys[1] - ys[2], abs=0.2)


def test_what_is_not_finite_breaks_the_line_and_is_marked() -> None:
    svg = plot(1.0, 2.0, math.nan, 2.0, math.inf)
    (path,) = svg.all("path", "main")
    assert path.attributes["d"].count("M") == 2
    assert [t.text for t in svg.all("text", "oddtext")] == ["NaN", "Inf"]
    assert "2 not finite" in svg.one("svg").attributes["aria-label"]
    assert not re.search("nan|inf", path.attributes["d"])


def test_zero_on_a_log_scale_stands_at_the_bottom() -> None:
    svg = plot(0.0, 1e-3, 10.0)
    assert len(svg.all("circle", "zero")) == 1
    assert drawn_points(svg)[0][1] == max(y for _, y in drawn_points(svg))


def test_long_curves_keep_their_extremes() -> None:
    values = [1.0] * 20_000
    values[7777], values[12_345], values[3] = 50.0, 0.2, math.nan
    svg = plot(*values)
    (path,) = svg.all("path", "main")
    assert len(path.attributes["d"]) < 12_000
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path.attributes["d"])]
    low, high = (drawn_points(plot(50.0, 0.2, 1.0))[n][1] for n in (1, 0))
    assert min(heights) == pytest.approx(high, abs=0.2)
    assert max(heights) == pytest.approx(low, abs=0.2)
    assert svg.all("path", "odd")


def told(run: Run) -> Plots:
    recording = run.recording()
    return curves([("The run", recording, Optimizers(recording, Places({run.file: run.source}, run.file)))])


def test_norms_in_true_units() -> None:
    verification = amp_verification()
    recording = verification.before.main
    assert recording is not None
    found = curves([("Before", recording, Optimizers(recording, Places({}, "train.py")))])
    norm = {curve.name: curve.points for curve in found.drawn[0].charts[0].curves}
    assert norm["before the clip"][0] == pytest.approx((1, 10.838), abs=1e-3)
    assert norm["at the step"][0] == pytest.approx((1, 1 / 65536))
    assert norm["max_norm 1"][0] == (1, 1.0)
    assert norm["limit that really acted: max_norm / scale"][-1] == pytest.approx((8, 1 / 32768))
    assert found.drawn[0].charts[0].skipped == (3,)


def test_what_never_changes_is_told_in_words() -> None:
    run = Run("optimizer.step(")
    run.optimizer("o1", "SGD")
    for _ in range(3):
        run.backward(2.0, scaler="s1", scale=1024.0)
        run.step(2.0)
    found = told(run)
    assert [p.title for p in found.drawn] == ["Gradient norm"]
    assert found.constants == ["Loss: 0.7 throughout", "Learning rate: 0.001 throughout", "Scale: 1024 throughout"]


def test_the_loss_is_that_before_it_was_divided() -> None:
    run = Run("optimizer.step(")
    run.optimizer("o1", "SGD")
    for loss in (4.0, 2.0):
        for _ in range(2):
            run.backward(2.0, loss=loss / 2, factor=0.5)
        run.step(2.0)
    (plot,) = [plot for plot in told(run).drawn if plot.title == "Loss"]
    assert [curve.points for curve in plot.charts[0].curves] == [((1, 4.0), (2, 2.0))]


def test_no_data_no_plot() -> None:
    run = Run("x")
    assert told(run) == Plots()


def test_map_of_layers() -> None:
    layers: dict[str, list[float | None]] = {"a.weight": [1.0, 10.0, math.nan], "b.weight": [0.0, None, 100.0]}
    found = heat([1, 2, 3], layers)
    assert found is not None
    assert (found.low, found.high, found.rows, found.grouped, found.odd, found.zero) == (
        "1",
        "100",
        2,
        False,
        True,
        True,
    )
    svg = read(found.svg)
    cells = {next(iter(p.classes)): p.attributes["d"] for p in svg.all("path")}
    assert cells == {
        "heat0": "M0 0h1v1h-1z", "heat4": "M1 0h1v1h-1z", "heat8": "M2 1h1v1h-1z", "heat-nan": "M2 0h1v1h-1z",
        "heat-zero": "M0 1h1v1h-1z",
    }  # fmt: skip
    assert [t.text for t in svg.all("title")] == [
        "a.weight\nnorm 1 to 10, last NaN, not finite in 1", "b.weight\nnorm 0 to 100, last 100",
    ]  # fmt: skip
    assert heat([], {}) is None


def test_many_layers_are_put_together_by_module() -> None:
    layers: dict[str, list[float | None]] = {
        f"h.{n}.{part}": [3.0 if part == "weight" else 4.0] for n in range(100) for part in ("weight", "bias")
    }
    rows = grouped(layers)
    assert list(rows)[:2] == ["h.0", "h.1"]
    assert len(rows) == 100
    assert rows["h.0"] == [5.0]
    flat: dict[str, list[float | None]] = {str(n): [1.0] for n in range(1000)}
    assert len(grouped(flat)) <= 160


def test_many_samples_keep_the_largest_and_what_is_not_a_number() -> None:
    values: list[float | None] = [1.0] * 1000
    values[500], values[900] = math.nan, 1e4
    found = heat(list(range(1000)), {"a": values})
    assert found is not None
    assert found.odd
    assert found.high == "10000"
    assert len(found.svg) < 5000


def test_numbers_as_people_write_them() -> None:
    values = [0.0, 1.0, 65536.0, 1 / 65536, 0.03125, 1234.5678, 123456.7, math.nan, math.inf, -math.inf, 1e12, -2.5]
    assert [number(v) for v in values] == [
        "0", "1", "65536", "1.53e-05", "0.0312", "1235", "1.23e+05", "NaN", "Inf", "-Inf", "1e+12", "-2.5",
    ]  # fmt: skip
    assert number(None) == "–"
    assert numbers([1, 1, 2, 3, 4, 5]) == "1, 2, 3, …, 5"
    assert counted(1, "step") == "1 step"
    assert counted(2, "process", "processes") == "2 processes"
    assert [span(s) for s in ([], [3], [3, 4, 5], [1, 3, 4])] == ["", "3", "3–5", "1, 3–4"]
