"""Notices that a loop has become steady, so that its other turns need not be run: each would be as the last one.

What a turn does is decided by what is known when it begins, and by its number. If a turn leaves behind what the one
before it left, and nobody asked for its number, all that follow do the same. Their events are written down as if they
had been run, and their steps are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlint.events import Turn
from gradlint.paths import values as v
from gradlint.paths.run import LoopState, Run
from gradlint.python import syntax as s
from gradlint.python.frame import Frame
from gradlint.records import replace

#: values that change in place
_MUTABLE = (v.Collection, v.ParamsValue, v.Optimizer, v.Instance, v.Model, v.Managing, v.Scheduler, v.Scaler)
#: how deep values are compared; what is nested more deeply counts as different
_DEPTH = 6

Snapshot = tuple[tuple[object, ...], list[Mapping[Any, object]], dict[int, list[object]]]


class Steady:
    """The turns of one loop."""

    def __init__(
        self, run: Run, loop: LoopState, counter: tuple[s.Name, v.Value] | None = None, *, me: v.Value | None = None
    ) -> None:
        """`counter`: a name that gets another number in each turn, for which nothing in the loop asks, and the last;
        `me`: the object whose method is run in each turn."""
        self._run = run
        self._loop = loop
        self.counter = counter
        self._me = me
        self._left: Snapshot | None = None
        self._first, self._steps = 0, 0
        #: turns that are over, or written down
        self.over = 0

    def begin(self) -> None:
        """A turn begins."""
        self._first, self._steps = len(self._run.events), self._run.core.budget

    def reached(self, frame: Frame) -> bool:
        """Whether the turn that is over has left behind what the one before it left."""
        if self._loop.asked or self._loop.turn >= self._loop.turns - 2:
            return False
        before, self._left = self._left, self._snapshot(frame)
        if before is None or not _same(before[:2], self._left[:2], _DEPTH):
            return False
        now = self._left[2]
        return all(_same(inside, now[key], _DEPTH) for key, inside in before[2].items() if key in now)

    def repeat(self) -> None:
        """Writes down all turns that are left, or as many as there are steps for."""
        run, loop = self._run, self._loop
        steps, left = self._steps - run.core.budget, loop.turns - loop.turn - 1
        count = min(left, run.core.budget // steps) if steps else left
        run.core.budget -= steps * count
        rest = range(loop.turn + 1, loop.turn + 1 + count)
        turn = run.events[self._first :]
        place = len(run.loops) - 1
        for number in rest:
            now: dict[tuple[Turn, ...], tuple[Turn, ...]] = {}
            for event in turn:
                frames = now.get(event.frames)
                if frames is None:
                    here = replace(event.frames[place], turn=number)
                    frames = now[event.frames] = (*event.frames[:place], here, *event.frames[place + 1 :])
                run.events.append(replace(event, frames=frames, index=len(run.events)))
        self.over = loop.turn + 1 + count

    def _snapshot(self, frame: Frame) -> Snapshot:
        run = self._run
        numbers = (
            run.serial, run.core.frame.no_grad, run.window_full, run.window_count, run.unsure_sync, run.partial,
            run.over_parameters, run.aborting, run.behind, len(run.doubts), len(run.hooked),
            len(run.own_norms), len(run.contexts),
        )  # fmt: skip
        frames: list[Frame] = []
        for one in (frame, *(caller for _, caller in reversed(run.core.inside))):
            outer: Frame | None = one
            while outer is not None and outer not in frames:
                frames.append(outer)
                outer = outer.outer
        for function in list(frame.names.values()):
            if isinstance(function, v.Function) and function.outer not in frames:
                frames.append(function.outer)
        first = dict(frame.names)
        if self.counter is not None:
            first.pop(self.counter[0].id, None)
        known: list[Mapping[Any, object]] = [
            first, *(dict(other.names) for other in frames[1:]), dict(run.attributes), dict(run.inferred),
            {key: dict(entries) for key, entries in run.entries.items()}, dict(run.optimizers), dict(run.flags),
            dict(run.sizes), {"self": self._me},
        ]  # fmt: skip
        return numbers, known, _contents(known)


def _contents(known: list[Mapping[Any, object]]) -> dict[int, list[object]]:
    """What is in the values that change in place, as it is now."""
    found: dict[int, list[object]] = {}
    for names in known:
        for value in names.values():
            if isinstance(value, _MUTABLE):
                _open(value, found)
    return found


def _open(value: v.Value, found: dict[int, list[object]]) -> None:
    if id(value) in found:
        return
    found[id(value)] = inside = [getattr(value, name) for name in type(value).__match_args__]
    for number, part in enumerate(inside):
        if isinstance(part, _MUTABLE):
            _open(part, found)
        elif isinstance(part, list | dict):
            inside[number] = part.copy()
            for inner in part if isinstance(part, list) else part.values():
                if isinstance(inner, _MUTABLE):
                    _open(inner, found)


def _same(a: object, b: object, depth: int) -> bool:
    """Whether two values cannot be told apart."""
    if a is b:
        return True
    if type(a) is not type(b) or depth < 0:
        return False
    if isinstance(a, v.Value):
        names = type(a).__match_args__
        return all(_same(getattr(a, name), getattr(b, name), depth - 1) for name in names)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_same(x, y, depth - 1) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(x, b[key], depth - 1) for key, x in a.items())
    return a == b
