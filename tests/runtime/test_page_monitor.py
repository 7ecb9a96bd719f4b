"""The page of a monitor: findings, clips, plots, and the map of layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradlint.model import Severity
from gradlint.registry import rule_url
from gradlint.runtime.monitor.data import Condition, Finding, Sample
from gradlint.runtime.page.monitor import monitor_page
from gradlint.runtime.page.render import write
from tests.runtime.page_monitors import MONITORS, monitored
from tests.runtime.page_reading import Element, read


@pytest.fixture(scope="module")
def page() -> Element:
    return read(monitor_page(monitored(12)))


def test_head(page: Element) -> None:
    assert page.one("h1").text == "2 findings in 4000 steps: not finite, vanishing early layers"
    about = {d.one("dt").text: d.one("dd").text for d in page.one("dl", "about").all("div")}
    assert about["Model"] == "GPT"
    assert about["Sampled every"] == "50 steps"
    assert about["Skipped by the scaler"] == "1"
    assert "older samples are thinned out" in page.one("ul", "notes").text


def test_findings(page: Element) -> None:
    first, second = page.one("table", "timed").one("tbody").all("tr")
    assert first.one("td").text.endswith("from step 2000, over by 2050")
    assert second.one("td").text.endswith("since step 2600")
    assert "and 4 more" in second.text


def test_clips(page: Element) -> None:
    limiting, net = page.one("table", "clips").one("tbody").all("tr")
    assert "limits every step" in limiting.text
    assert "3604 of 4000 (90 %)" in limiting.text
    assert "raise max_norm towards the 90th percentile, 3.2" in limiting.text
    assert "safety net" in net.text
    assert "median norm" not in net.text


def test_plots(page: Element) -> None:
    assert [f.one("h3").text for f in page.all("figure", "plots")] == [
        "Gradient norm",
        "Loss",
        "Learning rate",
        "Scale",
    ]
    norm = page.all("figure", "plots")[0]
    assert "true units, before the clip" in norm.text
    assert {t.text for t in norm.all("text", "oddtext")} == {"NaN"}


def test_layers(page: Element) -> None:
    names = [t.text.splitlines()[0] for t in page.one("svg", "heat").all("title")]
    assert len(names) == 86
    assert names[0] == "transformer.wte.weight"
    assert len(page.one("table", "numbers").one("tbody").all("tr")) == 86
    assert "NaN or Inf" in page.text


@pytest.mark.slow
def test_three_hundred_layers_still_fit() -> None:
    text = monitor_page(monitored(45))
    heat = read(text).one("svg", "heat")
    assert 100 < len(heat.all("title")) <= 160
    assert float(heat.attributes["viewbox"].split()[3]) < 800
    assert len(text) < 300_000


def test_clipping_scaled_gradients_shows_the_limit_that_acted() -> None:
    data = MONITORS["calm"]()
    data.samples = [Sample(n, 5.0, 1 / 1024, 1.0, True, 1024.0, True) for n in range(1, 5)]
    page = read(monitor_page(data))
    assert [li.text for li in page.all("ul", "legend")[0].all("li")] == [
        "max_norm 1", "limit that really acted: max_norm / scale", "before the clip, every step",
        "after the clip, sampled",
    ]  # fmt: skip
    assert "Scale: 1024 throughout" in page.text


def test_without_trouble() -> None:
    page = read(monitor_page(MONITORS["calm"]()))
    assert page.one("h1").text == "No trouble seen in 30 steps"
    assert "Learning rate: 0.1 throughout" in page.text
    assert not page.all("table", "timed")


def test_without_a_sample() -> None:
    page = read(monitor_page(MONITORS["nothing-seen"]()))
    assert page.one("h1").text == "No gradient was seen in 0 steps"
    assert not page.all("svg")


def test_is_written(tmp_path: Path) -> None:
    write(monitor_page(MONITORS["calm"]()), tmp_path / "gradients.html")
    assert (tmp_path / "gradients.html").read_text(encoding="utf-8") == monitor_page(MONITORS["calm"]())


def test_remedies_lines_and_skipped_steps_are_shown() -> None:
    data = MONITORS["calm"]()
    data.findings = [
        Finding(
            Condition.EXPLODING, 7, Severity.WARNING, "exploding", remedies=("clip", "numerics (GL601)"), line="a.py:3"
        )
    ]
    data.totals, data.skips = [(step, float(step)) for step in range(1, 31)], [4, 9]
    page = read(monitor_page(data))
    assert [li.text for li in page.one("ol", "remedies").all("li")] == ["clip", "numerics (GL601)"]
    assert page.one("a", "code").attributes["href"] == rule_url("GL601")
    assert "a.py:3" in page.one("td", "when").text
    norm = page.all("figure", "plots")[0]
    assert len(norm.all("path", "skip")) == 2
    assert "skipped by the scaler" in norm.text
