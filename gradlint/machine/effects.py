"""What a change of the text does to training: the events of a path before and after, optimizer by optimizer.

A fix may change the aspects that its finding complains of, for the optimizers that it speaks of. Whatever else there is
(backwards, what each step uses, clips, clearings, synchronisation, of every optimizer) has to stay as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

from gradlint.events import (
    Backward,
    Clip,
    Edit,
    EditKind,
    Event,
    Mark,
    Norm,
    Read,
    Schedule,
    Site,
    Step,
    Sync,
    Unscale,
    Update,
    Wrap,
    Zero,
)
from gradlint.machine.trace import build
from gradlint.records import dataclass
from gradlint.rule import Aspect
from gradlint.states import Path, Trace

_ASPECTS: dict[type[Event], Aspect] = {
    Backward: Aspect.BACKWARDS,
    Step: Aspect.STEPS,
    Zero: Aspect.CLEARS,
    Clip: Aspect.CLIPS,
    Unscale: Aspect.UNSCALES,
    Update: Aspect.UPDATES,
    Schedule: Aspect.SCHEDULES,
    Edit: Aspect.EDITS,
    Read: Aspect.READS,
}
#: what happens on a path before may happen elsewhere behind a fix, but not vanish from it
_KEPT = frozenset({Aspect.STEPS, Aspect.CLEARS, Aspect.UPDATES, Aspect.SCHEDULES})
#: a scaler and its update serve all optimizers at once
_SHARED = frozenset({Aspect.UPDATES})
_AT_BOUNDARY = frozenset(Aspect) - {Aspect.BACKWARDS, Aspect.SCALE, Aspect.DIVISION}

_NORMALISED = (Norm.DIVIDED, Norm.DIVIDED_BY_COUNTER, Norm.WEIGHTED)

Lives = Mapping[str, list[Event]]


@dataclass(frozen=True, slots=True)
class Licence:
    """What may change, and of which optimizers (None: of all)."""

    aspects: frozenset[Aspect] = frozenset()
    optimizers: frozenset[str] | None = frozenset()

    def __or__(self, other: Licence) -> Licence:
        every = self.optimizers is None or other.optimizers is None
        ids = None if every else (self.optimizers or frozenset()) | (other.optimizers or frozenset())
        return Licence(self.aspects | other.aspects, ids)

    def of(self, optimizer: str) -> frozenset[Aspect]:
        """The aspects that may change for this one."""
        if not optimizer:
            return self.aspects  # what touches nobody's gradients
        shared = _SHARED | _AT_BOUNDARY if Aspect.BOUNDARY in self.aspects else _SHARED & self.aspects
        return self.aspects | shared if self.optimizers is None or optimizer in self.optimizers else shared


def harm(before: Iterable[Path], after: Iterable[Path], licence: Licence) -> str | None:
    """What a change does to training beside what it may do; None if that is nothing.

    Paths are matched by where they start and what was decided on them. A starting point that is gone had nothing left
    to do.
    """
    new = dict(_keyed(after))
    for key, old in _keyed(before):
        other = new.get(key)
        if other is None and old.unusual:
            continue  # the decision is not asked any more: its usual answer is compared
        reason = _path_harm(old, other or Path((), {}), licence)
        if reason:
            return reason
    return None


def exhausted(paths: Iterable[Path], starts: Collection[str]) -> bool:
    """Whether a path from one of these starting points was broken off."""
    return any(path.exhausted and path.entry in starts for path in paths)


def _keyed(paths: Iterable[Path]) -> Iterator[tuple[Hashable, Path]]:
    """A fix neither adds nor renames functions; those of one name are told apart by their order."""
    numbers: dict[str, list[int]] = {}
    for path in paths:
        same = numbers.setdefault(path.entry, [])
        if path.start not in same:
            same.append(path.start)
        yield (path.entry, same.index(path.start), path.forced), path


def _path_harm(before: Path, after: Path, licence: Licence) -> str | None:
    first, second = build(before), build(after)
    common = first.lives.keys() & second.lives.keys()
    old, new = _lives(first, common), _lives(second, common)
    if Aspect.BACKWARDS not in licence.aspects and _backwards(before) != _backwards(after):
        return "it would change how often something is back-propagated"
    # whose gradients a clip is meant for is told by what is there to clip: a clip in another place may be another's
    if gone := _vanished([*before.events], [*after.events], frozenset({Aspect.CLIPS})):
        return gone
    for key, was in old.items():
        may, now = licence.of(key), new[key]
        if gone := _vanished(was, now, _KEPT):
            return gone
        for check in (_moved, _unused, _unscaled_late, _unsynchronised, _divided_twice):
            reason = check(was, now, may)
            if reason:
                return reason
    return None


def _lives(trace: Trace, common: Collection[str]) -> Lives:
    """The events of each optimizer that both texts step or clear; under "" those that touch none of them."""
    lives = {key: [e for w in trace.lives[key].windows for e in w.events] for key in common}
    touched = {index for key in common for index in trace.lives[key].of_event}
    lives[""] = [e for e in trace.events if e.index not in touched]
    return {key: [e for e in events if not isinstance(e, Mark)] for key, events in lives.items()}


def _backwards(path: Path) -> list[tuple[int, ...]]:
    return [tuple(f.turn for f in e.frames) for e in path.events if isinstance(e, Backward)]


def _moved(was: list[Event], now: list[Event], may: frozenset[Aspect]) -> str | None:
    """Whatever the fix is not about happens as often, in the same turns and in the same order."""
    if _shown(was, may) == _shown(now, may):
        return None
    for kind, aspect in _ASPECTS.items():
        if aspect not in may and _counts(was, kind) != _counts(now, kind):
            return f"it would change how often something else happens: {aspect.value}"
    return "it would change the order of something else"


def _shown(events: list[Event], may: frozenset[Aspect]) -> list[Hashable]:
    forwards: dict[Site, int] = {}
    return [
        (type(e).__name__, tuple(f.turn for f in e.frames), *_details(e, may, forwards))
        for e in events
        # whose backward it is depends on who steps behind it: where steps move, all backwards were compared together
        if _ASPECTS.get(type(e)) not in may and not (isinstance(e, Backward) and Aspect.STEPS in may)
    ]


def _details(event: Event, may: frozenset[Aspect], forwards: dict[Site, int]) -> Iterator[Hashable]:
    """What else has to stay. Places have other numbers in another text, so forwards are counted."""
    if isinstance(event, Backward):
        if event.forward is not None:
            yield forwards.setdefault(event.forward, len(forwards))
        if Aspect.SCALE not in may:
            yield event.scaler is not None
        if Aspect.DIVISION not in may:
            yield (event.norm if event.norm in _NORMALISED else None, event.divisor)
        if Aspect.SYNC not in may:
            yield (event.sync, event.forward_sync)
    elif isinstance(event, Step) and Aspect.SCALE not in may:
        yield event.scaler is not None
    elif isinstance(event, Edit):
        yield event.kind


def _counts(events: list[Event], kind: type[Event]) -> int:
    return sum(isinstance(e, kind) for e in events)


def _vanished(was: list[Event], now: list[Event], kept: frozenset[Aspect]) -> str | None:
    """What a fix moves must still happen where gradients are stepped on."""
    if not _counts(now, Step):
        return None
    for kind, aspect in _ASPECTS.items():
        if aspect in kept and _counts(was, kind) and not _counts(now, kind):
            return f"there would be none left on a path that had some: {aspect.value}"
    return None


@dataclass(frozen=True, slots=True)
class _Used:
    """The backwards whose gradients a step uses, beside what was left over from before."""

    backwards: tuple[Backward, ...]

    @property
    def synchronising(self) -> int:
        return sum(_synchronises(b) is Sync.ON for b in self.backwards)

    @property
    def last(self) -> Sync:
        return _synchronises(self.backwards[-1]) if self.backwards else Sync.ON


def _synchronises(backward: Backward) -> Sync:
    """DDP reads its flag in the forward, FSDP in the backward."""
    return backward.forward_sync if backward.wrap is Wrap.DDP else backward.sync


def _uses(events: list[Event]) -> list[_Used]:
    found: list[_Used] = []
    fresh: list[Backward] = []
    for event in events:
        if isinstance(event, Backward):
            fresh.append(event)
        elif isinstance(event, Zero):
            fresh.clear()
        elif isinstance(event, Step):
            found.append(_Used(tuple(fresh)))
            fresh.clear()
    return found


def _unused(was: list[Event], now: list[Event], may: frozenset[Aspect]) -> str | None:
    """Each step uses the gradients of as many backwards as before."""
    if Aspect.USED in may or [len(u.backwards) for u in _uses(was)] == [len(u.backwards) for u in _uses(now)]:
        return None
    return "a step would use the gradients of other backwards than before"


def _unscaled_late(was: list[Event], now: list[Event], may: frozenset[Aspect]) -> str | None:
    """Behind the scaler's step, and before its update, unscale_ raises: the step has unscaled."""
    if _late_unscales(now) <= _late_unscales(was):
        return None
    return "unscale_ would come behind the step, and raise"


def _late_unscales(events: list[Event]) -> int:
    found, stepped = 0, False
    for event in events:
        found += stepped and isinstance(event, Unscale)
        stepped = event.scaler is not None if isinstance(event, Step) else stepped and not isinstance(event, Update)
    return found


def _unsynchronised(was: list[Event], now: list[Event], may: frozenset[Aspect]) -> str | None:
    """A fix of synchronisation leaves no step without it: the ranks would no longer agree."""
    if Aspect.SYNC not in may:
        return None
    for old, new in zip(_uses(was), _uses(now), strict=False):
        if not any(b.wrap is not Wrap.NONE for b in new.backwards):
            continue
        if new.last is not Sync.ON and new.last is not old.last:
            return "the gradients of a step might not be synchronised"
        if new.synchronising > max(1, old.synchronising):
            return "gradients would be synchronised more often"
    return None


def _divided_twice(was: list[Event], now: list[Event], may: frozenset[Aspect]) -> str | None:
    """A loss is divided only where nothing divides the gradients already."""
    if Aspect.DIVISION not in may or not any(_divides(e) for e in now):
        return None
    old = sum(isinstance(e, Backward) and e.norm is Norm.DIVIDED for e in was)
    new = sum(isinstance(e, Backward) and e.norm is Norm.DIVIDED for e in now)
    return "the gradients are divided already" if new > old else None


def _divides(event: Event) -> bool:
    return isinstance(event, Edit) and event.kind in (EditKind.DIVIDE, EditKind.SCALE)
