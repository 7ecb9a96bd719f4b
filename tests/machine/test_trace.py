"""Windows, lives, and which events are whose."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradlint.events import Backward, Event, OptimizerRef, Step, Turn, Zero
from gradlint.knowledge.frameworks.accelerate import ACCELERATE
from gradlint.machine.trace import build
from gradlint.states import Trace, Window
from tests.machine.scene import (
    LOOP,
    OPTIMIZER,
    backward,
    clip,
    mark,
    owned,
    path,
    schedule,
    site,
    step,
    turns,
    unscale,
    update,
    zero,
)

GEN = OptimizerRef("opt_g", "opt_g", owned("gen"))
DIS = OptimizerRef("opt_d", "opt_d", owned("dis"))


def _windows(trace: Trace, optimizer: str = "opt") -> list[list[str]]:
    return [[type(event).__name__ for event in window.events] for window in trace.lives[optimizer].windows]


def _accumulation(size: int, windows: int, *, text: str = "n") -> list[Event]:
    """Whole windows, cleared behind each step."""
    events: list[Event] = [zero()]
    for number in range(windows):
        events += [backward(number * size + micro) for micro in range(size)]
        events += [step(number * size + size - 1, window=text), zero(number * size + size - 1)]
    return events


# -- windows


def test_a_window_ends_with_its_step() -> None:
    trace = build(path([zero(0), backward(0), step(0), zero(1), backward(1), step(1), zero(2)]))
    assert _windows(trace) == [["Zero", "Backward", "Step"], ["Zero", "Backward", "Step"], ["Zero"]]
    assert [window.number for window in trace.lives["opt"].windows] == [0, 1, 2]
    assert [window.step is not None for window in trace.lives["opt"].windows] == [True, True, False]


def test_every_event_knows_its_window() -> None:
    trace = build(path([zero(0), backward(0), step(0), zero(1), backward(1), step(1)]))
    life = trace.lives["opt"]
    assert [life.of_event[index].number for index in range(6)] == [0, 0, 0, 1, 1, 1]


def test_what_stands_where_in_a_window() -> None:
    trace = build(path([zero(0), backward(0), clip(0), backward(1), step(1)]))
    window = trace.lives["opt"].windows[0]
    middle = next(event for event in window.events if type(event).__name__ == "Clip")
    last = window.step
    assert last is not None
    assert [b.index for b in window.of(Backward)] == [1, 3]
    assert [b.index for b in window.before(middle, Backward)] == [1]
    assert [b.index for b in window.after(middle, Backward)] == [3]
    assert [b.index for b in window.between(middle, last, Backward)] == [3]
    assert list(window.between(middle, last, Zero)) == []


def test_several_turns_of_one_backward_accumulate() -> None:
    trace = build(path(_accumulation(3, 2)))
    first, second, rest = trace.lives["opt"].windows
    assert first.accumulates
    assert second.accumulates
    assert not rest.accumulates
    assert trace.lives["opt"].accumulates


@pytest.mark.parametrize(
    "events",
    [
        [zero(0), backward(0), step(0), zero(1), backward(1), step(1)],
        [zero(0), backward(0, loss="a"), backward(0, loss="b"), step(0)],  # two losses of one turn
        [zero(0), backward(0, loss="a"), backward(1, loss="b"), step(1)],  # two losses, not one twice
        [zero(0), backward(0), backward(0), step(0)],  # retain_graph, in one turn
    ],
)
def test_several_backwards_are_not_always_accumulation(events: list[Event]) -> None:
    assert not build(path(events)).lives["opt"].accumulates


def test_the_same_loss_in_the_other_arm_of_a_condition_accumulates() -> None:
    other = replace(backward(1), site=site("else: loss.backward()"))
    assert build(path([zero(), backward(0), other, step(1, window="n")])).lives["opt"].accumulates


def test_accumulated_gradients_without_a_step_are_no_accumulation() -> None:
    trace = build(path([zero(), backward(0), backward(1), zero(1)]))
    assert trace.lives["opt"].windows[0].accumulates
    assert not trace.lives["opt"].accumulates


def test_a_window_closes_at_a_boundary_that_was_understood() -> None:
    known, unknown = (build(path(_accumulation(3, 1, text=text))).lives["opt"].windows[0] for text in ("n", ""))
    assert known.closes
    assert known.size_text == "n"
    assert not unknown.closes
    assert unknown.size_text == "N"


def test_a_window_of_one_does_not_close() -> None:
    assert not build(path(_accumulation(1, 1))).lives["opt"].windows[0].closes


def test_an_inner_loop_closes_a_window() -> None:
    inner = [replace(backward(0, k), frames=(Turn(LOOP, 0), Turn(LOOP + 1, k, "chunks"))) for k in range(3)]
    window = build(path([zero(0), *inner, step(0)])).lives["opt"].windows[0]
    assert window.micro_loop == "chunks"
    assert window.size_text == "chunks"
    assert window.closes


def test_the_loop_round_the_step_is_no_inner_loop() -> None:
    same = [replace(backward(k), frames=(Turn(LOOP, k, "chunks"),)) for k in range(3)]
    last = replace(step(2), frames=(Turn(LOOP, 2, "chunks"),))
    assert build(path([zero(), *same, last])).lives["opt"].windows[0].micro_loop == ""


def test_accelerate_closes_its_windows() -> None:
    last = replace(step(2), framework=ACCELERATE)
    assert build(path([backward(0), backward(1), backward(2), last])).lives["opt"].windows[0].closes


def test_an_empty_window_has_no_size() -> None:
    window = Window(0)
    assert (window.accumulates, window.closes, window.micro_loop, window.size_text) == (False, False, "", "N")


# -- turns and loops


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        ((0,), (0,), True),
        ((0,), (1,), False),
        ((0, 1), (0, 1), True),
        ((0, 1), (0, 2), False),
        ((0, 1), (1, 1), False),
        ((0,), (0, 5), True),  # one of them in a loop inside the turn
        ((1,), (0, 5), False),
        ((), (3,), True),  # one of them in no loop at all
        ((), (), True),
    ],
)
def test_same_turn(first: tuple[int, ...], second: tuple[int, ...], answer: bool) -> None:
    assert backward(*first).same_turn(step(*second)) is answer
    assert step(*second).same_turn(backward(*first)) is answer


def test_turns_of_different_loops_do_not_differ() -> None:
    elsewhere = replace(step(), frames=turns(5, loop=LOOP + 50))
    assert backward(0).same_turn(elsewhere)
    assert not backward(0).shares_loop(elsewhere)


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [((0,), (1,), True), ((0,), (0, 3), True), ((), (), True), ((), (0,), False), ((0,), (), False)],
)
def test_shares_loop(first: tuple[int, ...], second: tuple[int, ...], answer: bool) -> None:
    assert backward(*first).shares_loop(step(*second)) is answer


def test_same_loss() -> None:
    assert backward(0).same_loss(backward(1))
    assert not backward(0, loss="a").same_loss(backward(1, loss="b"))
    elsewhere = site("else: loss.backward()")
    assert backward(0).same_loss(replace(backward(1), site=elsewhere))
    assert not backward(0).same_loss(replace(backward(0), site=elsewhere)), "one turn has one loss of a name"


# -- whose events


def test_an_optimizer_that_is_only_made_has_no_life() -> None:
    idle = OptimizerRef("idle", "idle")
    assert set(build(path([zero(), backward(), step()], OPTIMIZER, idle)).lives) == {"opt"}


def test_each_optimizer_has_its_own_windows() -> None:
    trace = build(
        path(
            [
                zero(0, optimizer="opt_d"), backward(0, loss="d", params=owned("dis")), step(0, optimizer="opt_d"),
                zero(0, optimizer="opt_g"), backward(0, loss="g", params=owned("gen")), step(0, optimizer="opt_g"),
            ],
            GEN, DIS,
        )
    )  # fmt: skip
    assert _windows(trace, "opt_d") == [["Zero", "Backward", "Step"]]
    assert _windows(trace, "opt_g") == [["Zero", "Backward", "Step"]]


def test_a_backward_through_another_model_is_stray_there() -> None:
    """The generator's loss goes through the discriminator; its optimizer steps right behind."""
    turn = [
        zero(0, optimizer="opt_d"), backward(0, loss="d", params=owned("dis")), step(0, optimizer="opt_d"),
        zero(0, optimizer="opt_g"), backward(0, loss="g", params=owned("gen", "dis")), step(0, optimizer="opt_g"),
    ]  # fmt: skip
    trace = build(path(turn, GEN, DIS))
    assert [b.loss for b in trace.lives["opt_d"].events(Backward)] == ["d"]
    assert [b.loss for b in trace.lives["opt_g"].events(Backward)] == ["g"]


def test_a_backward_that_both_step_for_is_nobodys_stray() -> None:
    both = owned("gen", "dis")
    turn = [backward(0, params=both), step(0, optimizer="opt_d"), step(0, optimizer="opt_g")]
    trace = build(path(turn, GEN, DIS))
    assert len(list(trace.lives["opt_d"].events(Backward))) == 1
    assert len(list(trace.lives["opt_g"].events(Backward))) == 1


def test_an_optimizer_keeps_its_backwards_if_all_of_them_looked_stray() -> None:
    """It must have got its gradients from somewhere."""
    both = owned("gen", "dis")
    turn = [backward(0, params=both), step(0, optimizer="opt_g"), mark(1), step(1, optimizer="opt_d")]
    trace = build(path(turn, GEN, DIS))
    assert len(list(trace.lives["opt_d"].events(Backward))) == 1


def test_what_is_known_of_parameters_is_dropped_if_no_backward_reaches_them() -> None:
    ref = OptimizerRef("opt", "opt", owned("somewhere"))
    trace = build(path([zero(0), backward(0, params=owned("model")), step(0)], ref))
    assert _windows(trace) == [["Zero", "Backward", "Step"]]


def test_a_model_clears_the_optimizers_of_its_parts() -> None:
    part = OptimizerRef("opt", "opt", owned("model.encoder"))
    events = [
        zero(0, optimizer=None, params=owned("model")),
        backward(0, params=owned("model.encoder")),
        zero(0, optimizer=None, params=owned("other")),
        step(0),
    ]
    assert _windows(build(path(events, part))) == [["Zero", "Backward", "Step"]]


def test_a_clip_belongs_to_the_optimizer_that_holds_fresh_gradients() -> None:
    gen, dis = OptimizerRef("opt_g", "opt_g"), OptimizerRef("opt_d", "opt_d")
    events = [
        backward(0, loss="d"), step(0, optimizer="opt_d"),
        zero(0, optimizer="opt_d"), zero(0, optimizer="opt_g"),
        backward(0, loss="g", params=owned("gen")), clip(0), step(0, optimizer="opt_g"),
    ]  # fmt: skip
    trace = build(path(events, replace(gen, params=owned("gen")), replace(dis, params=owned("dis"))))
    assert "Clip" in [name for window in _windows(trace, "opt_g") for name in window]
    assert "Clip" not in [name for window in _windows(trace, "opt_d") for name in window]


def test_unscale_schedule_and_update_find_their_optimizers() -> None:
    events = [
        zero(optimizer="opt_g"), zero(optimizer="opt_d"), backward(params=owned("gen", "dis")),
        unscale(optimizer="opt_g"), step(optimizer="opt_g"), step(optimizer="opt_d"),
        update(), schedule(optimizer="opt_d"), schedule(),
    ]  # fmt: skip
    trace = build(path(events, GEN, DIS))
    assert _windows(trace, "opt_g") == [["Zero", "Backward", "Unscale", "Step"], ["Update"]]
    assert _windows(trace, "opt_d") == [["Zero", "Backward", "Step"], ["Update", "Schedule"]]


def test_an_only_optimizer_gets_a_scheduler_that_names_none() -> None:
    trace = build(path([zero(), backward(), step(), schedule()]))
    assert _windows(trace)[1] == ["Schedule"]


def test_an_optimizer_lives_from_its_making_until_its_name_is_bound_anew() -> None:
    old = OptimizerRef("opt#1", "opt", since=0, until=3)
    new = OptimizerRef("opt#2", "opt", since=3)
    events = [
        zero(optimizer="opt#1"), backward(0), step(0, optimizer="opt#1"),
        zero(optimizer="opt#2"), backward(1), step(1, optimizer="opt#2"),
    ]  # fmt: skip
    trace = build(path(events, old, new))
    assert [b.index for b in trace.lives["opt#1"].events(Backward)] == [1]
    assert [b.index for b in trace.lives["opt#2"].events(Backward)] == [4]


def test_a_step_of_an_unknown_optimizer_is_nobodys() -> None:
    trace = build(path([zero(), backward(), step(optimizer="ghost"), step()]))
    assert [s.optimizer for s in trace.lives["opt"].events(Step)] == ["opt"]
