"""What a finding is made of: an error needs things that were seen, and nothing unknown between them."""

from __future__ import annotations

from gradlint.events import Backward, Event, Guess, Opaque, Path, Role, Step, Unscale, Update, Zero
from gradlint.records import replace
from gradlint.rule import Draft, Severity, in_user_words, short
from gradlint.states import GradientState

#: a message with its "if" leaves out what follows from the mistake if it gets longer than this
_LONGEST = 200


def graded(draft: Draft, path: Path, event: Event | None = None, state: GradientState | None = None) -> Draft:
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
        guess = part_guessed(part, path)
        if guess is not None:
            return guess
    if state is None or not story:
        return None
    return _unknown_between(story, path, state)


def part_guessed(event: Event, path: Path) -> Guess | None:
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
        if isinstance(event, Zero) and event.index not in state.life.of_event and part_guessed(event, path):
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
