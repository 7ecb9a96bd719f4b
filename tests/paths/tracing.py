"""Follows small programs and tells what happened, in a form that tests can compare."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from gradlint.events import Backward, Event, Mark, Step
from gradlint.paths.explorer import Explorer
from gradlint.python.lower import Lowering
from gradlint.python.module import Module
from gradlint.python.source import Source, read
from gradlint.states import Path

#: an event's type, and the turn of the innermost loop it happened in; -1 outside of all loops
Told = tuple[str, int]


def lowered(source: str) -> Lowering:
    text = read(textwrap.dedent(source).encode())
    assert isinstance(text, Source)
    return Lowering(text.tree)


def program(source: str) -> Module:
    return Module(lowered(source).body)


def paths(source: str) -> list[Path]:
    """The paths on which something happens to gradients, the usual one first."""
    return [path for path in Explorer(program(source)).paths() if happened(path)]


def usual(source: str) -> Path:
    return paths(source)[0]


def happened(path: Path) -> list[Event]:
    return [event for event in path.events if not isinstance(event, Mark)]


def told(events: Iterable[Event]) -> list[Told]:
    return [(type(event).__name__, turn(event)) for event in events]


def story(source: str) -> list[Told]:
    """What happens on the usual path."""
    return told(happened(usual(source)))


def names(path: Path) -> list[str]:
    return [type(event).__name__ for event in happened(path)]


def turn(event: Event) -> int:
    return event.frames[-1].turn if event.frames else -1


def each_turn(kinds: Sequence[str], turns: int) -> list[Told]:
    """The same events in every turn."""
    return [(kind, number) for number in range(turns) for kind in kinds]


def windows(path: Path) -> list[int]:
    """How many backwards each step used; what is left at the end is not counted."""
    counts, pending = [], 0
    for event in path.events:
        if isinstance(event, Backward):
            pending += 1
        elif isinstance(event, Step):
            counts.append(pending)
            pending = 0
    return counts
