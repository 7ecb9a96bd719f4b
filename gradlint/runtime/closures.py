"""Optimizers that are handed a closure evaluate the loss as often as they like: only the last time is an update's."""

from __future__ import annotations

from gradlint.runtime.recording import Happening, Place, Recording, Stepped


def superseded(recording: Recording) -> frozenset[int]:
    """The happenings (their indices) of all evaluations within a step but its last."""
    found: set[int] = set()
    waiting: list[Happening] = []
    for happening in recording.happenings:
        waiting.append(happening)
        if isinstance(happening, Stepped) and happening.closure and happening.place is not None:
            calls = {h.index: call for h in waiting if (call := _evaluation(h, happening.place)) is not None}
            last = max(calls.values(), default=0)
            found.update(index for index, call in calls.items() if call != last)
            waiting = []
    return frozenset(found)


def _evaluation(happening: Happening, step: Place) -> int | None:
    """Which call of the closure it was done in; None if it was not done by this step."""
    for inner, outer in zip(happening.places, happening.places[1:], strict=False):
        if (outer.file, outer.line, outer.call) == (step.file, step.line, step.call):
            return inner.call
    return None
