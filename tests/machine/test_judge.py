"""The judge: every hook gets its events with the state before them, and a crash stays in its rule."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Clip, Event, OptimizerRef, Step, Zero
from gradlint.machine.judge import Judge
from gradlint.rule import Draft, Rule, RuleMeta, Severity
from gradlint.states import GradientState, Path, Phase, Trace
from tests.machine.scene import OPTIMIZER, backward, clip, mark, owned, path, step, zero


class Watcher(Rule):
    """Writes down what it is asked."""

    meta = RuleMeta("GL999", Severity.ADVICE)
    message = "`{text}` in {phase}"

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, str, Phase, int]] = []
        self.traces: list[Trace] = []

    def _note(self, event: Event, state: GradientState) -> Iterator[Draft]:
        self.seen.append((type(event).__name__, state.optimizer.id, state.phase, state.window.number))
        yield self.finding(event, text=event.text, phase=state.phase.value)

    def on_zero(self, zero: Zero, state: GradientState) -> Iterator[Draft]:
        return self._note(zero, state)

    def on_backward(self, backward: Backward, state: GradientState) -> Iterator[Draft]:
        return self._note(backward, state)

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        return self._note(step, state)

    def on_trace(self, trace: Trace) -> Iterator[Draft]:
        self.traces.append(trace)
        yield from ()


class Fragile(Rule):
    """Breaks on every clip."""

    meta = RuleMeta("GL998", Severity.ADVICE)
    message = "never"

    def on_clip(self, clip: Clip, state: GradientState) -> Iterator[Draft]:
        raise ZeroDivisionError("as expected")


def _judge(whole: Path) -> tuple[Watcher, list[Draft], list[str]]:
    watcher = Watcher()
    crashes: list[str] = []
    judge = Judge([Fragile(), watcher], lambda code, error: crashes.append(f"{code} {error}"))
    return watcher, list(judge.judge(whole)), crashes


def test_rules_see_the_state_before_the_event() -> None:
    watcher, drafts, crashes = _judge(path([zero(0), backward(0), step(0), zero(1)]))
    assert watcher.seen == [
        ("Zero", "opt", Phase.UNKNOWN, 0),
        ("Backward", "opt", Phase.EMPTY, 0),
        ("Step", "opt", Phase.FILLED, 0),
        ("Zero", "opt", Phase.CONSUMED, 1),
    ]
    assert [draft.message for draft in drafts][1] == "`loss.backward()` in empty"
    assert crashes == []


def test_an_optimizer_that_was_just_made_has_no_gradients() -> None:
    born = OptimizerRef("opt", "opt", born=True)
    watcher, _, _ = _judge(path([step(0), zero(0)], born))
    assert watcher.seen[0] == ("Step", "opt", Phase.EMPTY, 0)


def test_an_event_is_told_once_for_each_optimizer_it_touches() -> None:
    one, two = OptimizerRef("a", "a", owned("model.x")), OptimizerRef("b", "b", owned("model.y"))
    events = [backward(0, params=owned("model")), step(0, optimizer="a"), step(0, optimizer="b")]
    watcher, _, _ = _judge(path(events, one, two))
    assert [(kind, who) for kind, who, _, _ in watcher.seen] == [
        ("Backward", "a"),
        ("Backward", "b"),
        ("Step", "a"),
        ("Step", "b"),
    ]


def test_an_event_that_touches_nobody_is_told_all_the_same() -> None:
    watcher, _, _ = _judge(path([backward(0)], OPTIMIZER))
    assert watcher.seen == [("Backward", "", Phase.UNKNOWN, 0)]


def test_marks_move_nothing() -> None:
    watcher, _, _ = _judge(path([zero(0), mark(1), backward(1), step(1)]))
    assert [phase for _, _, phase, _ in watcher.seen] == [Phase.UNKNOWN, Phase.EMPTY, Phase.FILLED]


def test_a_crash_is_told_and_the_others_go_on() -> None:
    watcher, drafts, crashes = _judge(path([zero(0), backward(0), clip(0), step(0)]))
    assert crashes == ["GL998 as expected"]
    assert len(drafts) == len(watcher.seen) == 3


def test_the_whole_trace_is_told_at_the_end() -> None:
    watcher, _, _ = _judge(path([zero(0), backward(0), step(0)]))
    (trace,) = watcher.traces
    assert [type(event).__name__ for event in trace.events] == ["Zero", "Backward", "Step"]
