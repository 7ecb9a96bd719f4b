"""Runs a path through the states of its optimizers and lets every rule look at every event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from gradlint.events import Event, Mark, OptimizerRef, Path
from gradlint.machine.grade import graded
from gradlint.machine.trace import build
from gradlint.records import replace
from gradlint.rule import EVENT_HOOKS, Draft, Rule
from gradlint.states import GradientState, Life, Phase, Trace

#: called with a rule and the exception it raised
OnCrash: TypeAlias = Callable[[Rule, Exception], None]
_HOOKS = (*EVENT_HOOKS.values(), "on_trace")


def walk(trace: Trace) -> Iterator[tuple[Event, GradientState]]:
    """Each event with the state before it of every optimizer that it touches; one that touches none has no id."""
    states = [_begun(trace, life) for life in trace.lives.values()]
    orphan = _begun(trace, Life(OptimizerRef("", "the optimizer")))
    for event in trace.path.events:
        touched = [state for state in states if event.index in state.life.of_event]
        for state in touched or ([orphan] if not isinstance(event, Mark) else []):
            state.window = state.life.of_event.get(event.index, state.window)
            yield event, state
            state.advance(event)


def _begun(trace: Trace, life: Life) -> GradientState:
    state = GradientState(life.optimizer, trace.path, life)
    if life.optimizer.born:
        state.phase = Phase.EMPTY
    return state


def follows_paths(rule: Rule) -> bool:
    return any(hook in rule.hooks for hook in _HOOKS)


class Judge:
    """All rules, by the hooks that they override."""

    def __init__(self, rules: Iterable[Rule], on_crash: OnCrash) -> None:
        self._rules = list(rules)
        self._on_crash = on_crash
        self._hooked: dict[str, list[Rule]] = {hook: [r for r in self._rules if hook in r.hooks] for hook in _HOOKS}

    def judge(self, path: Path) -> Iterator[Draft]:
        """What the rules say of one path."""
        trace = build(path)
        for event, state in walk(trace):
            hook = EVENT_HOOKS.get(type(event))
            if hook is not None:
                for draft in self._ask(hook, event, state):
                    yield replace(graded(draft, path, event, state), optimizer=state.optimizer.id)
        yield from (graded(draft, path) for draft in self._ask("on_trace", trace))

    def _ask(self, hook: str, *args: Any) -> Iterator[Draft]:
        for rule in self._hooked[hook]:
            try:
                yield from list(getattr(rule, hook)(*args))
            except Exception as error:  # a rule's crash is one reported error; the rest goes on
                self._on_crash(rule, error)
