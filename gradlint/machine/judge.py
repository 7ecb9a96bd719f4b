"""Runs a path through the states of its optimizers and lets every rule look at every event.

What a rule says is graded by what it is made of: an error needs things that were seen, and nothing unknown between
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from gradlint.events import (
    Backward,
    Event,
    Guess,
    Mark,
    Opaque,
    OptimizerRef,
    Role,
    Step,
    Unscale,
    Update,
    Zero,
)
from gradlint.machine.trace import build
from gradlint.records import replace
from gradlint.rule import EVENT_HOOKS, Draft, Rule, Severity, in_user_words, short
from gradlint.states import GradientState, Life, Path, Phase, Trace

#: told the code of a rule (or the name of a part) and the exception that it raised
OnCrash: TypeAlias = Callable[[str, Exception], None]
_HOOKS = (*EVENT_HOOKS.values(), "on_trace")
#: a message with its "if" leaves out what follows from the mistake if it gets longer than this
_LONGEST = 200


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


class Hooked:
    """The rules, by the hooks that they override."""

    def __init__(self, rules: Iterable[Rule], on_crash: OnCrash) -> None:
        self._on_crash = on_crash
        self._hooked: dict[str, list[Rule]] = {}
        for rule in rules:
            for hook in rule.hooks:
                self._hooked.setdefault(hook, []).append(rule)

    def rules(self, hook: str) -> list[Rule]:
        return self._hooked.get(hook, [])

    def __call__(self, hook: str, *subject: Any) -> list[Draft]:
        found: list[Draft] = []
        for rule in self._hooked.get(hook, ()):
            found += self.ask(rule, hook, *subject)
        return found

    def ask(self, rule: Rule, hook: str, *subject: Any) -> Iterable[Draft]:
        try:
            return list(getattr(rule, hook)(*subject))
        except Exception as error:  # a rule's crash is one reported error; the rest goes on
            self._on_crash(rule.meta.code, error)
            return ()


class Judge:
    """Asks the rules about one path after the other."""

    def __init__(self, rules: Iterable[Rule], on_crash: OnCrash) -> None:
        self._rules = Hooked(rules, on_crash)

    def judge(self, path: Path) -> Iterator[Draft]:
        """What the rules say of one path."""
        trace = build(path)
        for event, state in walk(trace):
            hook = EVENT_HOOKS.get(type(event))
            if hook is not None:
                for draft in self._rules(hook, event, state):
                    yield replace(_graded(draft, path, event, state), optimizer=state.optimizer.id)
        yield from (_graded(draft, path) for draft in self._rules("on_trace", trace))


def _graded(draft: Draft, path: Path, event: Event | None = None, state: GradientState | None = None) -> Draft:
    """The draft with its grade. An error of which a part is only guessed is a warning that says what it hangs on."""
    guess = _guess(draft, path, event, state)
    if guess is None:
        return draft
    if draft.level is not Severity.ERROR:
        return replace(draft, guess=guess)
    message = f"if {in_user_words(guess.clause)}: {draft.message}"
    if len(message) > _LONGEST:
        message = f"if {in_user_words(guess.clause)}: {draft.message.rpartition(': ')[0] or draft.message}"
    return replace(draft, guess=guess, severity=Severity.WARNING, message=message)


def _guess(draft: Draft, path: Path, event: Event | None, state: GradientState | None) -> Guess | None:
    """The first thing that the finding takes for granted; None if all was seen."""
    told = [*draft.story, *(state.pending if state is not None else ()), *([event] if event is not None else [])]
    story = sorted({e.index: e for e in told}.values(), key=lambda e: e.index)
    if state is not None and state.optimizer.guess is not None:
        return state.optimizer.guess
    for part in story:
        guess = _part_guessed(part, path)
        if guess is not None:
            return guess
    if state is None or not story:
        return None
    return _unknown_between(story, path, state)


def _part_guessed(event: Event, path: Path) -> Guess | None:
    """What is guessed of an event: itself, or who takes part in it."""
    if event.guess is not None:
        return event.guess
    if isinstance(event, Backward | Unscale | Step | Update) and event.scaler is not None and event.scaler.guess:
        return event.scaler.guess
    ref = path.optimizers.get(event.optimizer or "") if isinstance(event, Step | Zero | Unscale) else None
    return ref.guess if ref is not None else None


def _unknown_between(story: list[Event], path: Path, state: GradientState) -> Guess | None:
    """What lies between the events of a story and could change what they mean."""
    first, last = story[0].index, story[-1].index
    between = path.events[first + 1 : last]
    for event in between:
        if event.index in state.life.of_event:
            if isinstance(event, Opaque):
                return _call(event.text, f"`{short(event)}` leaves the gradients alone")
            if isinstance(event, Zero | Step | Backward) and event.guess is not None:
                return event.guess
    for event in between:
        if isinstance(event, Zero) and event.index not in state.life.of_event and _part_guessed(event, path):
            if event.params.may_meet(state.optimizer.params):
                return _call(event.text, f"`{short(event)}` clears other gradients")
    for doubt in path.doubts:
        if first < doubt.index <= last and doubt.params.may_meet(state.optimizer.params):
            if doubt.clears or _filled(path, state, doubt.index):
                return _call(doubt.text, f"`{_cut(doubt.text)}` leaves the gradients alone")
    return _caller_between(story, path)


def _filled(path: Path, state: GradientState, index: int) -> bool:
    """Whether there are gradients that nobody has used or cleared yet, before the event with this number."""
    for event in reversed(path.events[:index]):
        if event.index in state.life.of_event and isinstance(event, Backward | Step | Zero | Opaque):
            return isinstance(event, Backward)
    return False


def _caller_between(story: list[Event], path: Path) -> Guess | None:
    """A function that others call for each batch: what they do between its step and its next backward is not seen.

    A framework that calls functions of the file, and leaves the backward to them, clears nothing.
    """
    if any(isinstance(e, Backward) and e.framework.drives for e in story):
        return None
    turns = [(e, f.turn) for e in story for f in e.frames if f.loop == path.entry_loop]
    for event, turn in turns:
        if isinstance(event, Step) and any(isinstance(e, Backward) and t > turn for e, t in turns):
            return _call(path.entry, f"nothing clears between two calls of `{path.entry}`")
    return None


def _call(text: str, clause: str) -> Guess:
    return Guess(Role.CALL, text, clause)


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text.partition('(')[0][:36]}(…)"
