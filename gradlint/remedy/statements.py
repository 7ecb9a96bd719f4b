"""Statements that go elsewhere, or away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gradlint.events import Clip, Event, Read
from gradlint.remedy import Remedy

if TYPE_CHECKING:
    from gradlint.rewrite.bench import Bench


def move(
    event: Event, message: str, *, before: Event | None = None, after: Event | None = None,
    past: tuple[type[Event], ...] = (), level: bool = False,
) -> Remedy:  # fmt: skip
    """The statement of an event goes beside that of another, with its comments and its condition.

    `past`: behind what does these things, too, if it follows there. `level`: in the block that it is in, behind (or in
    front of) whatever holds the other.
    """

    def act(bench: Bench) -> None:
        from gradlint.rewrite.moving import move

        move(bench, event, before=before, after=after, past=past, level=level)

    return Remedy(message, act)


def move_all(events: Sequence[Event], message: str, before: Event) -> Remedy:
    """Several statements, in their order."""

    def act(bench: Bench) -> None:
        from gradlint.rewrite.moving import move_all

        move_all(bench, events, before)

    return Remedy(message, act)


def delete(event: Event, message: str) -> Remedy:
    """The statement of an event goes."""
    return Remedy(message, lambda bench: bench.delete(event))


def delete_all(event: Event, message: str, allowed: Callable[[Event], bool]) -> Iterator[Remedy]:
    """The statement of an event goes, with the loop or the condition round it, or the call of the function, that
    does nothing else."""
    for outer in reversed(range(len(event.via) + 1)):
        yield Remedy(message, lambda bench, outer=outer: bench.delete(event, allowed, outer))  # type: ignore[misc]  # mypy cannot infer the default


def measure_first(read: Read, clip: Clip) -> Iterator[Remedy]:
    """The measure goes in front of the clip, or the clip behind it; whoever keeps the clip's own norm wants both."""
    first = move(read, "Measure the gradients before they are clipped", before=clip)
    second = move(clip, "Clip only after the gradients were measured", after=read, past=(Read,))
    for way in (first, second):

        def act(bench: Bench, way: Remedy = way) -> None:
            bench.check_binds_nothing(clip)
            way.act(bench)

        yield Remedy(way.message, act)
