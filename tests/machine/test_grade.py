"""An error needs evidence: what a finding's events are made of, and what lies between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gradlint.events import Clip, Doubt, Event, Guess, Opaque, OptimizerRef, Role, ScalerRef, Step
from gradlint.machine.judge import Judge
from gradlint.model import Grade
from gradlint.rule import Draft, Rule, RuleMeta, Severity
from gradlint.states import GradientState, Path
from tests.machine.scene import OPTIMIZER, backward, clip, owned, path, site, step, turns, zero

GUESS = Guess(Role.OPTIMIZER, "opt", "`opt` is an optimizer")


class Alarm(Rule):
    """Speaks at every step, of the first backward that it uses."""

    meta = RuleMeta("GL999", Severity.ERROR)
    message = "`{step}` is wrong"
    level: Severity | None = None

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        first: list[Event] = [*state.pending[:1]] or _stale(state)
        yield self.finding(step, step=step.text, related=[(e, "here") for e in first], severity=self.level)


class Mild(Alarm):
    """The same, as advice."""

    level = Severity.ADVICE


def _stale(state: GradientState) -> list[Event]:
    return [] if state.last_step is None else [state.last_step]


def _judged(*events: Event, rule: type[Rule] = Alarm, at: Path | None = None) -> list[Draft]:
    def crash(code: str, error: Exception) -> None:
        raise error

    made = path(events) if at is None else at
    return list(Judge([rule()], crash).judge(made))


def _one(*events: Event, at: Path | None = None) -> tuple[Grade, Severity | None, str]:
    draft = _judged(*events, at=at)[-1]
    return draft.grade, draft.severity, draft.message


SEEN = (Grade.SEEN, None, "`opt.step()` is wrong")


def _if(clause: str) -> tuple[Grade, Severity | None, str]:
    return Grade.GUESSED, Severity.WARNING, f"if {clause}: `opt.step()` is wrong"


def test_what_was_seen_is_an_error() -> None:
    assert _one(zero(), backward(), step()) == SEEN


def _with(made: Path, ref: OptimizerRef) -> Path:
    return replace(made, optimizers={ref.id: ref})


def test_an_optimizer_by_name() -> None:
    made = _with(path([zero(), backward(), step()]), replace(OPTIMIZER, guess=GUESS))
    assert _one(at=made) == _if("`opt` is an optimizer")


def test_a_scaler_by_name() -> None:
    scaler = ScalerRef("s", "s", guess=Guess(Role.SCALER, "s", "`s` is a gradient scaler"))
    assert _one(zero(), backward(scaler=scaler), step(scaler=scaler)) == _if("`s` is a gradient scaler")


@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_event_by_name(position: int) -> None:
    """The clearing is neither told nor between what is told."""
    events: list[Event] = [zero(), backward(), step()]
    events[position] = replace(events[position], guess=Guess(Role.CALL, "f", "`f()` does it"))
    assert _one(*events) == (SEEN if position == 0 else _if("`f()` does it"))


class LooksAhead(Alarm):
    """Tells the step that a clip is meant for."""

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        if state.window.step is not None:
            yield self.finding(clip, step=clip.text, related=[(state.window.step, "used here")])

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        yield from ()


def test_an_unknown_call_between_the_events() -> None:
    opaque = Opaque(site("update(optimizer)"))
    (seen,) = _judged(opaque, backward(), clip(), step(), rule=LooksAhead)
    assert seen.grade is Grade.SEEN
    (guessed,) = _judged(backward(), clip(), opaque, step(), rule=LooksAhead)
    assert guessed.message.startswith("if `update(optimizer)` leaves the gradients alone: ")


def _doubted(*events: Event, index: int, clears: bool = False, params: str = "") -> Path:
    doubt = Doubt(index, "average(model)", owned(params) if params else owned(), clears)
    if not params:
        doubt = replace(doubt, params=replace(doubt.params, known=False))
    return replace(path(events), doubts=(doubt,))


def test_a_call_that_has_the_model_while_there_are_gradients() -> None:
    assert _one(at=_doubted(backward(), step(), index=1)) == _if("`average(model)` leaves the gradients alone")
    assert _one(at=_doubted(backward(), step(), index=0)) == SEEN  # before there are any
    assert _one(at=_doubted(backward(), step(), index=2)) == SEEN  # behind the step


def test_a_call_that_has_another_model() -> None:
    mine = replace(OPTIMIZER, params=owned("model"))
    made = _doubted(backward(params=owned("model")), step(), index=1, params="teacher")
    assert _one(at=_with(made, mine)) == SEEN
    same = _doubted(backward(params=owned("model")), step(), index=1, params="model")
    assert _one(at=_with(same, mine)) == _if("`average(model)` leaves the gradients alone")


def test_a_call_that_may_clear_matters_without_gradients_too() -> None:
    events = [step(0), step(1)]
    assert _one(at=_doubted(*events, index=1)) == SEEN
    assert _one(at=_doubted(*events, index=1, clears=True)) == _if("`average(model)` leaves the gradients alone")


def test_somebody_else_clears_and_may_be_a_wrapper_of_the_same() -> None:
    """`self.optim.zero_grad()` and `self.optim.optimizer.step()`."""
    other = OptimizerRef("wrapper", "wrapper", guess=Guess(Role.OPTIMIZER, "w", "`w` is an optimizer"))
    events = [step(0), zero(1, optimizer="wrapper"), step(1)]
    made = replace(path(events), optimizers={"opt": OPTIMIZER, "wrapper": other})
    assert _one(at=made) == _if("`wrapper.zero_grad()` clears other gradients")
    seen = replace(made, optimizers={"opt": OPTIMIZER, "wrapper": replace(other, guess=None)})
    assert _one(at=seen) == SEEN


def test_the_caller_of_a_function_is_not_seen() -> None:
    class Stale(Alarm):
        """Tells the step that has used them already."""

        def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
            if state.stale is not None:
                yield self.finding(step, step=step.text, related=[(state.stale, "used")])

    events = [backward(0), step(0), backward(1), step(1)]
    (seen,) = _judged(rule=Stale, at=path(events))
    assert seen.grade is Grade.SEEN
    called = replace(path(events), entry="train_step", entry_loop=turns(0)[0].loop)
    (guessed,) = _judged(rule=Stale, at=called)
    assert guessed.message == "if nothing clears between two calls of `train_step`: `opt.step()` is wrong"


def test_a_warning_stays_what_it_is() -> None:
    made = _with(path([zero(), backward(), clip(), step()]), replace(OPTIMIZER, guess=GUESS))
    (draft,) = _judged(rule=Mild, at=made)
    assert (draft.grade, draft.severity, draft.message) == (Grade.GUESSED, Severity.ADVICE, "`opt.step()` is wrong")
