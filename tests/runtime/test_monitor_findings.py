"""What a monitor says of its samples, and when it keeps silent. No torch is needed for that."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from gradlint.model import Severity
from gradlint.runtime.monitor.clips import Tally, percentile
from gradlint.runtime.monitor.data import ClipVerdict, Condition, Finding, Layer, Sample
from gradlint.runtime.monitor.judge import Circumstances, Judge, Trend, late_over_early, trend


def layers(*norms: float, axes: int = 2, ratio: float | None = 1e-3) -> tuple[Layer, ...]:
    return tuple(Layer(f"layer{i}", n, 0.0, n, n, ratio, 100, axes) for i, n in enumerate(norms))


def sample(step: int, *norms: float, loss: float | None = None, ratio: float | None = 1e-3) -> Sample:
    norm = math.hypot(*norms)
    return Sample(step, norm, norm, loss=loss, layers=layers(*norms, ratio=ratio))


def judged(samples: Sequence[Sample]) -> list[Finding]:
    judge = Judge()
    for each in samples:
        judge.consider(each, Circumstances())
    return judge.findings


def conditions(samples: Sequence[Sample]) -> list[tuple[Condition, int]]:
    return [(finding.condition, finding.step) for finding in judged(samples)]


FALLING = [2.0 * 0.9**i for i in range(20)]
FLAT = [2.0] * 20
RISING = [2.0 * 1.1**i for i in range(20)]


def test_exploding_is_told_at_once_and_once() -> None:
    assert conditions([sample(i, 150.0) for i in range(1, 10)]) == [(Condition.EXPLODING, 1)]
    assert conditions([sample(1, 99.0)]) == []


def test_exploding_is_told_anew_after_a_time_of_peace() -> None:
    norms = [150.0, 1.0, 1.0, 1.0, 150.0]
    findings = judged([sample(i, norm) for i, norm in enumerate(norms, 1)])
    assert [(finding.step, finding.until) for finding in findings] == [(1, 4), (5, None)]
    flicker = [150.0, 90.0] * 5
    assert len(judged([sample(i, norm) for i, norm in enumerate(flicker, 1)])) == 1


def test_large_gradients_are_no_finding_while_the_loss_is_known_to_fall() -> None:
    norms = [5.0] * 5 + [150.0] * 5
    runs = {name: [sample(i, n, loss=losses[i]) for i, n in enumerate(norms)] for name, losses in LOSSES.items()}
    assert conditions(runs["falling"]) == []
    assert conditions(runs["flat"]) == [(Condition.EXPLODING, 5)]


LOSSES = {"falling": FALLING, "flat": FLAT, "rising": RISING}


def test_small_gradients_are_no_finding_while_the_loss_falls() -> None:
    assert conditions([sample(i, 1e-8, loss=loss) for i, loss in enumerate(FALLING)]) == []


def test_small_gradients_are_told_when_the_loss_stands_still() -> None:
    (finding,) = judged([sample(i, 1e-8, loss=loss) for i, loss in enumerate(FLAT)])
    assert (finding.condition, finding.severity) == (Condition.VANISHING, Severity.WARNING)
    assert "the loss does not fall" in finding.message


def test_small_gradients_are_told_softly_when_nobody_told_the_loss() -> None:
    (finding,) = judged([sample(i, 1e-8) for i in range(20)])
    assert (finding.condition, finding.severity) == (Condition.VANISHING, Severity.ADVICE)
    assert "fine while the loss falls, tell it by monitor.loss(loss)" in finding.message


def test_one_small_sample_is_not_vanishing() -> None:
    assert conditions([sample(1, 1e-8), sample(2, 1.0), sample(3, 1e-8), sample(4, 1e-8), sample(5, 1.0)]) == []


def test_early_layers_that_get_nothing() -> None:
    norms = [1e-9, 1e-8, 1e-7, 1e-5, 1e-3, 1e-1]
    (finding,) = judged([sample(i, *norms, loss=2.0) for i in range(9)])
    assert finding.condition is Condition.VANISHING_EARLY
    assert finding.layers == ("layer0", "layer5")
    assert conditions([sample(i, *norms, loss=loss) for i, loss in enumerate(FALLING)]) == []
    assert conditions([sample(i, *[0.01, 0.1, 1.0, 1.0, 1.0, 1.0]) for i in range(9)]) == []


def test_late_over_early_looks_at_weight_matrices() -> None:
    assert late_over_early(layers(1e-9, 1.0, 1.0)) is None
    assert late_over_early(layers(1e-9, 1e-9, 1.0, 1.0, 1.0, axes=1)) is None
    depth = late_over_early(layers(1e-4, 1.0, 1.0, 2.0))
    assert depth is not None
    assert depth.ratio == pytest.approx(2e4)
    nothing = late_over_early(layers(0.0, 1.0, 1.0, 1.0))
    assert nothing is not None
    assert nothing.ratio == math.inf


def test_a_large_ratio_counts_only_when_the_loss_rises() -> None:
    told = {
        name: conditions([sample(i, 1.0, loss=loss, ratio=0.5) for i, loss in enumerate(losses)])
        for name, losses in LOSSES.items()
    }
    assert told["falling"] == told["flat"] == []
    assert [condition for condition, _ in told["rising"]] == [Condition.LARGE_RATIO]
    assert conditions([sample(i, 1.0, ratio=0.5) for i in range(9)]) == []


def test_nan_is_told_whatever_the_loss_does() -> None:
    good = [sample(i, 1.0, 1.0, loss=FALLING[i]) for i in range(5)]
    bad = [sample(i, 1.0, math.nan, loss=FALLING[i]) for i in range(5, 9)]
    (finding,) = judged([*good, *bad])
    assert (finding.condition, finding.step, finding.layers) == (Condition.NOT_FINITE, 5, ("layer1",))
    assert finding.severity is Severity.ERROR


def test_a_loss_that_is_nan_is_blamed_first() -> None:
    (finding,) = judged([sample(1, math.nan, loss=math.nan)])
    assert "the loss is nan already: look at the loss function first" in finding.message


def test_the_trend_of_the_loss() -> None:
    assert trend([]) is Trend.UNTOLD
    assert trend(FALLING[:3]) is Trend.EARLY
    assert trend(FALLING) is Trend.FALLING
    assert trend([-1.0, -2.0, -3.0, -4.0]) is Trend.FALLING
    assert trend(FLAT) is Trend.FLAT
    assert trend([2.0, 2.0, 2.05, 2.05]) is Trend.FLAT
    assert trend(RISING) is Trend.RISING


# Clips.


def tally(norms: Sequence[float], limit: float = 1.0) -> Tally:
    counted = Tally("clip_grad_norm_", "all parameters")
    for norm in norms:
        counted.count(norm, limit, None)
    return counted


@pytest.mark.parametrize(
    ("norms", "verdict", "advice"),
    [
        ([0.5] * 4, ClipVerdict.UNKNOWN, "not known yet: 4 calls with a finite norm"),
        ([0.5, 0.25] * 10, ClipVerdict.NEVER, "never acts: the largest norm was 0.5"),
        ([0.5] * 19 + [3.0], ClipVerdict.SAFETY_NET, "safety net: it acts on 5 % of the steps"),
        (
            [0.5, 3.0] * 10,
            ClipVerdict.OFTEN,
            "limits 50 % of the steps; the 90th percentile of the norms is 3",
        ),
        (
            [3.0] * 19 + [0.5],
            ClipVerdict.ALWAYS,
            "limits almost every step (95 %): raise max_norm towards the 90th percentile, 3",
        ),
        ([3.2] * 10, ClipVerdict.ALWAYS, "limits every step: raise max_norm towards the 90th percentile, 3.2"),
    ],
)
def test_the_verdict_on_a_clip(norms: list[float], verdict: ClipVerdict, advice: str) -> None:
    clip = tally(norms).result()
    assert (clip.verdict, clip.advice) == (verdict, advice)
    assert clip.rate == sum(norm > 1 for norm in norms) / len(norms)


def test_norms_that_are_not_finite_are_counted_apart() -> None:
    clip = tally([0.5] * 6 + [math.nan, math.inf]).result()
    assert (clip.calls, clip.active, clip.not_finite, clip.largest) == (6, 0, 2, 0.5)


def test_percentiles_lie_between_their_neighbours() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert percentile([7.0], 0.9) == 7.0
