"""How each event moves the state of the gradients on."""

from __future__ import annotations

from gradlint.events import Event, Opaque, OptimizerRef, Read
from gradlint.states import GradientState, Life, Phase
from tests.machine.scene import (
    OPTIMIZER,
    SCALER,
    backward,
    clip,
    path,
    schedule,
    site,
    step,
    unscale,
    update,
    zero,
)


def _after(*events: Event, phase: Phase = Phase.UNKNOWN) -> GradientState:
    whole = path(events)
    state = GradientState(OPTIMIZER, whole, Life(OPTIMIZER), phase)
    for event in whole.events:
        state.advance(event)
    return state


def test_nothing_is_known_at_first() -> None:
    state = _after()
    assert state.phase is Phase.UNKNOWN
    assert state.pending == []
    assert state.steps == 0


def test_the_phases_of_an_update() -> None:
    assert _after(zero()).phase is Phase.EMPTY
    assert _after(zero(), backward()).phase is Phase.FILLED
    assert _after(zero(), backward(), clip()).phase is Phase.FILLED
    assert _after(zero(), backward(), step()).phase is Phase.CONSUMED
    assert _after(zero(), backward(), step(), zero()).phase is Phase.EMPTY


def test_backwards_pile_up_until_the_step() -> None:
    state = _after(zero(), backward(0), backward(1))
    assert [b.frames[0].turn for b in state.pending] == [0, 1]
    assert _after(zero(), backward(0), backward(1), step(1)).pending == []


def test_what_is_cleared_before_a_step_is_lost_until_the_step() -> None:
    state = _after(backward(0), zero(1), backward(1))
    assert [(b.frames[0].turn, z.frames[0].turn) for b, z in state.lost] == [(0, 1)]
    assert [b.frames[0].turn for b in state.pending] == [1]
    assert _after(backward(0), zero(1), backward(1), step(1)).lost == []


def test_clearing_what_was_used_loses_nothing() -> None:
    assert _after(backward(), step(), zero()).lost == []


def test_gradients_on_top_of_used_ones_are_stale() -> None:
    state = _after(zero(), backward(0), step(0), backward(1))
    assert state.stale is not None
    assert state.stale.frames[0].turn == 0
    assert _after(backward(0), step(0), backward(1), step(1)).stale is None
    assert _after(backward(0), step(0), zero(1), backward(1)).stale is None


def test_a_scaled_backward_stays_scaled_until_it_is_unscaled_used_or_cleared() -> None:
    assert _after(backward(scaler=SCALER)).scaled is not None
    assert _after(backward(scaler=SCALER), unscale()).scaled is None
    assert _after(backward(scaler=SCALER), step(scaler=SCALER)).scaled is None
    assert _after(backward(scaler=SCALER), zero()).scaled is None
    assert _after(backward()).scaled is None


def test_a_disabled_scaler_scales_nothing() -> None:
    off = type(SCALER)("scaler", "scaler", enabled=False)
    assert _after(backward(scaler=off)).scaled is None


def test_unscaling_lasts_until_the_update() -> None:
    assert _after(backward(scaler=SCALER), unscale()).unscaled is not None
    assert _after(backward(scaler=SCALER), unscale(), step(scaler=SCALER)).unscaled is not None
    assert _after(backward(scaler=SCALER), unscale(), step(scaler=SCALER), update()).unscaled is None


def test_a_step_through_the_scaler_waits_for_the_update() -> None:
    assert _after(backward(), step(scaler=SCALER)).waiting_update is not None
    assert _after(backward(), step(scaler=SCALER), update()).waiting_update is None
    assert _after(backward(), step()).waiting_update is None


def test_a_clip_holds_until_gradients_change() -> None:
    assert _after(backward(), clip()).clip is not None
    assert _after(backward(), clip(), backward()).clip is None
    assert _after(backward(), clip(), step()).clip is None
    assert _after(backward(), clip(), zero()).clip is None


def test_steps_are_counted_and_the_last_ones_remembered() -> None:
    state = _after(zero(0), backward(0), step(0), schedule(0), zero(1), backward(1), step(1), schedule(1))
    assert state.steps == 2
    assert state.last_step is not None
    assert state.last_zero is not None
    assert {e.frames[0].turn for e in (state.last_step, state.last_zero)} == {1}


def test_looking_changes_nothing() -> None:
    before, after = _after(zero(), backward()), _after(zero(), backward(), Read(site("p.grad.norm()")))
    assert (before.phase, len(before.pending)) == (after.phase, len(after.pending))


def test_after_an_opaque_call_nothing_is_known() -> None:
    state = _after(zero(), backward(scaler=SCALER), unscale(), clip(), Opaque(site("update(optimizer)")))
    assert state.phase is Phase.UNKNOWN
    assert state.pending == []
    assert state.lost == []
    assert (state.scaled, state.unscaled, state.clip, state.stale) == (None, None, None, None)
    assert (state.waiting_update, state.last_step) == (None, None)
    assert state.steps == 1, "it may have stepped"


def test_has_backward_looks_at_the_whole_life() -> None:
    whole = path([step(), backward()])
    empty = GradientState(OPTIMIZER, whole, Life(OPTIMIZER))
    assert not empty.has_backward


def test_an_optimizer_knows_its_name() -> None:
    ref = OptimizerRef("self.opt", "self.opt")
    assert GradientState(ref, path([], ref), Life(ref)).optimizer.text == "self.opt"
