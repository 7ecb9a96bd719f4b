"""What a monitor says of its samples, and when it keeps silent. No torch is needed for that."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from gradlint.model import Severity
from gradlint.runtime.monitor.data import (
    ClipCalls,
    ClipVerdict,
    Condition,
    Finding,
    Layer,
    Limits,
    Sample,
    Total,
    percentile,
)
from gradlint.runtime.monitor.judge import LIFELESS, PEACE, Judge
from gradlint.runtime.monitor.observations import (
    PLENTY,
    SHOWN,
    Circumstances,
    Losses,
    Totals,
    Trend,
    late_over_early,
    total_of,
)


def layers(*norms: float, axes: int = 2, ratio: float | None = 1e-3, rate: float | None = None) -> tuple[Layer, ...]:
    return tuple(Layer(f"layer{i}", n, 0.0, n, n, ratio, 100, axes, 1.0, rate) for i, n in enumerate(norms))


def sample(
    step: int, *norms: float, loss: float | None = None, ratio: float | None = 1e-3, rate: float | None = None
) -> Sample:
    norm = math.hypot(*norms)
    return Sample(step, norm, norm, loss=loss, layers=layers(*norms, ratio=ratio, rate=rate))


def judged(samples: Sequence[Sample], limits: Limits | None = None, missing: tuple[str, ...] = ()) -> list[Finding]:
    judge = Judge(limits)
    for each in samples:
        judge.step(total_of(each), each, Circumstances(missing=missing))
    return judge.findings


def conditions(samples: Sequence[Sample], limits: Limits | None = None) -> list[tuple[Condition, int]]:
    return [(finding.condition, finding.step) for finding in judged(samples, limits)]


def steps(norms: Sequence[float | None], loss: float | None = None) -> Judge:
    """Steps that were not sampled."""
    judge = Judge()
    for i, norm in enumerate(norms, 1):
        judge.step(Total(i, norm, loss))
    return judge


FALLING = [2.0 * 0.9**i for i in range(40)]
FLAT = [2.0] * 40
RISING = [2.0 * 1.1**i for i in range(40)]
LOSSES = {"falling": FALLING, "flat": FLAT, "rising": RISING}


def test_exploding_is_told_at_once_and_once() -> None:
    assert conditions([sample(i, 150.0) for i in range(1, 10)]) == [(Condition.EXPLODING, 1)]
    assert conditions([sample(1, 99.0)]) == []


def test_exploding_is_told_anew_after_a_time_of_peace() -> None:
    norms = [150.0, *[90.0] * PEACE, 150.0]
    findings = judged([sample(i, norm) for i, norm in enumerate(norms, 1)])
    assert [(finding.step, finding.until) for finding in findings] == [(1, 2), (len(norms), None)]
    flicker = [150.0, 90.0] * 5
    assert len(judged([sample(i, norm) for i, norm in enumerate(flicker, 1)])) == 1


def test_large_gradients_are_no_finding_while_the_loss_is_known_to_fall() -> None:
    norms = [5.0] * (PLENTY - 1) + [150.0] * 5
    runs = {name: [sample(i, n, loss=losses[i]) for i, n in enumerate(norms)] for name, losses in LOSSES.items()}
    assert conditions(runs["falling"]) == []
    assert conditions(runs["flat"]) == [(Condition.EXPLODING, PLENTY - 1)]


def test_large_gradients_are_no_finding_after_the_loss_has_fallen() -> None:
    losses = [*FALLING, *[FALLING[-1]] * 200]
    assert conditions([sample(i, 150.0, loss=loss) for i, loss in enumerate(losses)]) == []


def test_large_gradients_from_the_first_step_on_wait_for_the_loss_and_are_told_at_the_end() -> None:
    judge = Judge()
    for i in range(1, PLENTY - 1):
        judge.step(Total(i, 1e5, 2.0))
    assert judge.findings == []
    assert [finding.condition for finding in judge.end()] == [Condition.EXPLODING]
    right = Judge()
    for i in range(1, PLENTY + 2):
        right.step(Total(i, 1e5, FALLING[i]))
    assert right.end() == right.findings == []


def test_a_spike_is_told_at_its_step_whatever_the_loss_does() -> None:
    norms = [3.0] * 57 + [15675.0] + [3.0] * 40
    judge = Judge()
    for i, norm in enumerate(norms, 1):
        judge.step(Total(i, norm, 2.0 * 0.99**i))
    (finding,) = judge.findings
    assert (finding.condition, finding.step, finding.until) == (Condition.SPIKE, 58, 59)
    assert finding.severity is Severity.WARNING
    assert finding.remedies[0].startswith("clip_grad_norm_")


def test_a_spike_under_the_limit_of_exploding_is_told_and_one_that_the_clip_cut_is_advice() -> None:
    judge = steps([0.1] * 30)
    (finding,) = judge.step(Total(31, 80.0, limit=1.0))
    assert (finding.condition, finding.severity) == (Condition.SPIKE, Severity.ADVICE)
    assert "80, 1 after the clip, 800 times the median" in finding.message
    assert not any("clip_grad_norm_" in remedy for remedy in finding.remedies)


def test_norms_that_vary_are_no_spikes() -> None:
    assert steps([0.1 * 10 ** math.sin(i) for i in range(300)]).findings == []


def test_steady_growth_is_told_unless_the_loss_falls() -> None:
    norms = [1e-3 * 1.03**i for i in range(300)]
    assert [finding.condition for finding in steps(norms).findings] == [Condition.GROWING]
    judge = Judge()
    for i, norm in enumerate(norms):
        judge.step(Total(i, norm, 2.0 * 0.99**i))
    assert judge.findings == []


@pytest.mark.parametrize(("norm", "condition"), [(None, Condition.NO_GRADIENTS), (0.0, Condition.DEAD_STEPS)])
def test_a_run_of_dead_steps_is_told_whatever_the_loss_does(norm: float | None, condition: Condition) -> None:
    judge = Judge()
    for i, loss in enumerate(FALLING[:5], 1):
        judge.step(Total(i, 1.0, loss))
    for i, loss in enumerate(FALLING[5 : 5 + LIFELESS], 6):
        judge.step(Total(i, norm, loss))
    (finding,) = judge.findings
    assert (finding.condition, finding.step) == (condition, 5 + LIFELESS)
    judge.step(Total(30, 1.0))
    assert judge.findings[0].until == 30


def test_a_loss_of_exactly_0_has_no_gradient() -> None:
    assert steps([0.0] * 3 * LIFELESS, loss=0.0).findings == []


def test_few_steps_that_are_all_dead_are_told_at_the_end() -> None:
    judge = steps([None, None])
    assert judge.findings == []
    (finding,) = judge.end()
    assert "at each of the 2 steps" in finding.message
    assert steps([None, 1.0]).end() == []
    assert steps([]).end() == []


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
    norms = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    (finding,) = judged([sample(i, *norms, loss=2.0) for i in range(40)])
    assert finding.condition is Condition.VANISHING_EARLY
    assert finding.layers == ("layer0", "layer5")
    assert conditions([sample(i, *norms, loss=loss) for i, loss in enumerate(FALLING)]) == []
    assert conditions([sample(i, *[0.01, 0.1, 1.0, 1.0, 1.0, 1.0]) for i in range(9)]) == []


def test_a_falling_loss_does_not_silence_early_layers_that_take_no_part() -> None:
    norms = [1e-12, 1e-12, 1e-3, 1e-2, 1.0, 1.0]
    (finding,) = judged([sample(i, *norms, loss=loss) for i, loss in enumerate(FALLING)])
    assert (finding.condition, finding.severity) == (Condition.VANISHING_EARLY, Severity.WARNING)
    assert finding.remedies[0].startswith("ReLU or GELU")


def test_late_over_early_looks_at_weight_matrices() -> None:
    assert late_over_early(layers(1e-9, 1.0, 1.0)) is None
    assert late_over_early(layers(1e-9, 1e-9, 1.0, 1.0, 1.0, axes=1)) is None
    depth = late_over_early(layers(1e-4, 1.0, 1.0, 2.0))
    assert depth is not None
    assert depth.ratio == pytest.approx(2e4)
    assert late_over_early(layers(0.0, 1.0, 1.0, 1.0)) is None  # that is dead, not small


def test_layers_without_a_gradient_are_named() -> None:
    norms = [[1.0, 1.0, 1.0]] * 5 + [[1.0, 0.0, 1.0]] * 5 + [[1.0, 1.0, 1.0]]
    (finding,) = judged([sample(i, *n, loss=FALLING[i]) for i, n in enumerate(norms)])
    assert (finding.condition, finding.layers, finding.step, finding.until) == (
        Condition.DEAD_LAYERS, ("layer1",), 7, 10,
    )  # fmt: skip
    flicker = [[1.0, 0.0], [1.0, 1.0]] * 8
    assert judged([sample(i, *n) for i, n in enumerate(flicker)]) == []


def test_parameters_that_never_get_a_gradient_are_named() -> None:
    healthy = [sample(i, 1.0) for i in range(12)]
    (finding,) = judged(healthy, missing=("cut.weight", "cut.bias"))
    assert (finding.condition, finding.layers) == (Condition.NEVER_TRAINED, ("cut.weight", "cut.bias"))
    # one that had a gradient once is only out of use for a while
    assert judged(healthy, missing=("layer0",)) == []


def test_a_large_update_counts_only_when_the_loss_rises_and_the_gradient_is_the_update() -> None:
    told = {
        name: conditions([sample(i, 1.0, loss=loss, ratio=0.5, rate=1.0) for i, loss in enumerate(losses)])
        for name, losses in LOSSES.items()
    }
    assert told["falling"] == told["flat"] == []
    assert [condition for condition, _ in told["rising"]] == [Condition.LARGE_RATIO]
    assert conditions([sample(i, 1.0, ratio=0.5, rate=1.0) for i in range(20)]) == []
    assert conditions([sample(i, 1.0, loss=loss, ratio=0.5, rate=0.1) for i, loss in enumerate(RISING)]) == []
    assert conditions([sample(i, 1.0, loss=loss, ratio=0.5) for i, loss in enumerate(RISING)]) == []


def test_limits_can_be_set() -> None:
    large = [sample(i, 150.0) for i in range(1, 10)]
    assert conditions(large, Limits(exploding=1000)) == []
    assert conditions([sample(1, 15.0)], Limits(exploding=10)) == [(Condition.EXPLODING, 1)]
    with pytest.raises(ValueError, match="the limit spike must be a number above 0, not 0"):
        Limits(spike=0)


def test_nan_is_told_whatever_the_loss_does() -> None:
    good = [sample(i, 1.0, 1.0, loss=FALLING[i]) for i in range(5)]
    bad = [sample(i, 1.0, math.nan, loss=FALLING[i]) for i in range(5, 9)]
    (finding,) = judged([*good, *bad])
    assert (finding.condition, finding.step, finding.layers) == (Condition.NOT_FINITE, 5, ("layer1",))
    assert finding.severity is Severity.ERROR


def test_the_first_bad_step_is_told_even_if_it_was_not_sampled() -> None:
    judge = steps([1.0, 1.0])
    (finding,) = judge.step(Total(3, math.inf, 2.0, ("head.weight",)))
    assert (finding.step, finding.layers) == (3, ("head.weight",))
    assert finding.message.startswith("Inf in the gradient of head.weight;")
    assert judge.step(Total(4, math.nan)) == []


def test_a_loss_that_is_nan_is_blamed_first() -> None:
    (finding,) = judged([sample(1, math.nan, loss=math.nan)])
    assert "the loss is nan already: look at the loss function first" in finding.message


def test_a_loss_that_is_nan_after_gradients_that_grew_is_not_blamed() -> None:
    judge = steps([1.0, 30.0, 900.0, 3e4], loss=2.0)
    (finding,) = judge.step(Total(5, math.nan, math.inf))
    assert "training diverged, the norms before it were 1, 30, 900, 3e+04: clip, or lower" in finding.message
    assert "loss function" not in finding.message


def test_weights_that_are_nan_already_are_told() -> None:
    spoilt = Layer("fc.weight", math.nan, math.nan, math.nan, math.nan, math.nan, 4, weight=math.nan)
    (finding,) = judged([Sample(1, math.nan, math.nan, layers=(spoilt,), loss=math.nan)])
    assert "the weights of fc.weight hold it already: an earlier step wrote it" in finding.message


def test_every_finding_of_sizes_names_what_to_do() -> None:
    found = [
        *judged([sample(1, 150.0)]),
        *judged([sample(i, 1e-8) for i in range(9)]),
        *judged([sample(i, 1e-12, 1e-12, 1.0, 1.0) for i in range(9)]),
        *judged([sample(i, 1.0, loss=loss, ratio=0.5, rate=1.0) for i, loss in enumerate(RISING)]),
        *judged([sample(i, 1.0, 0.0) for i in range(9)]),
        *steps([0.0] * LIFELESS).findings,
        *steps([None] * LIFELESS).findings,
    ]
    assert len({finding.condition for finding in found}) == 7
    assert all(len(finding.remedies) > 1 for finding in found)


# The loss.


def trend(losses: Sequence[float]) -> Trend:
    told = Losses()
    for loss in losses:
        told.tell(loss)
    return told.trend


def test_the_trend_of_the_loss() -> None:
    assert trend([]) is Trend.UNTOLD
    assert trend(FALLING[:3]) is Trend.EARLY
    assert trend(FALLING) is Trend.FALLING
    assert trend([-1.0 - i for i in range(9)]) is Trend.FALLING
    assert trend(FLAT) is Trend.FLAT
    assert trend([2.0, 2.1] * 5) is Trend.EARLY
    assert trend([*[2.0] * 20, *[2.05] * 20]) is Trend.FLAT
    assert trend(RISING) is Trend.RISING


def test_noise_is_neither_a_rise_nor_a_fall() -> None:
    noise = random.Random(0)
    losses = [2.0 + noise.gauss(0, 1) for _ in range(1500)]
    found = [trend(losses[at : at + 100]) for at in range(0, 1400, 10)]
    assert Trend.RISING not in found
    assert found.count(Trend.FALLING) < 0.1 * len(found)


# All steps together.


def test_the_curve_of_a_long_run_keeps_its_peaks() -> None:
    totals = Totals()
    for step in range(1, 5001):
        totals.add(step, 500.0 if step == 2222 else math.nan if step == 4000 else 1.0 + step / 5000)
    assert len(totals.curve) <= SHOWN
    assert (2222, 500.0) in totals.curve
    assert [step for step, norm in totals.curve if math.isnan(norm)] == [4000]
    assert totals.largest == (2222, 500.0)
    assert totals.count == 5000


# Clips.


def clip_calls(norms: Sequence[float], limit: float = 1.0) -> ClipCalls:
    counted = ClipCalls("clip_grad_norm_", "all parameters")
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
    clip = clip_calls(norms).result()
    assert (clip.verdict, clip.advice) == (verdict, advice)
    assert clip.rate == sum(norm > 1 for norm in norms) / len(norms)


def test_norms_that_are_not_finite_are_counted_apart() -> None:
    clip = clip_calls([0.5] * 6 + [math.nan, math.inf]).result()
    assert (clip.calls, clip.active, clip.not_finite, clip.largest) == (6, 0, 2, 0.5)


def test_percentiles_lie_between_their_neighbours() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert percentile([7.0], 0.9) == 7.0
