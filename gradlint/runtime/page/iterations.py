"""A run cut into iterations: the turns of the training loop, each with the steps it made.

An iteration lasts until the loop that its step is in turns round: what stands behind the step in the same turn (the
scaler's update, the scheduler, a zero_grad, a misplaced clip) belongs to it. Micro-batches without a step belong to the
iteration that steps. Of several optimizers that take turns, the one that steps last and least often ends the iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gradlint.events import Turn
from gradlint.runtime.page.words import Places
from gradlint.runtime.recording import (
    BackwardRan,
    Ended,
    Forwarded,
    Happening,
    LoaderTurned,
    Looked,
    Met,
    Raised,
    Recording,
    Stepped,
    Surveyed,
    Synced,
    Warned,
    Zeroed,
)
from gradlint.runtime.turns import Turns

#: of optimizers that take turns, one that steps this much less often than the busiest does not end iterations
_RARE = 12

#: shown only if a finding points at them
_QUIET = (Looked, LoaderTurned, Warned)


@dataclass(slots=True)
class Iteration:
    """One turn of the training loop."""

    happenings: list[Happening] = field(default_factory=list)

    @property
    def steps(self) -> list[Stepped]:
        return [h for h in self.happenings if isinstance(h, Stepped)]


def iterations(recording: Recording, places: Places, marked: Iterable[int] = ()) -> list[Iteration]:
    """Those in which something is to be shown, in the order of the run."""
    shown = _shown(recording, frozenset(marked))
    enders = _enders([h for h in shown if isinstance(h, Stepped)])
    turns = Turns(places.files)
    found: list[Iteration] = []
    current, ender, around = Iteration(), None, tuple[Turn, ...]()
    for happening in shown:
        frames = turns.frames(happening.places, (happening.KIND, happening.optimizers)) if happening.places else ()
        if ender is not None and _turned(ender, around, happening, frames):
            found.append(current)
            current, ender = Iteration(), None
        if isinstance(happening, Stepped) and happening.owner in enders:
            if ender is not None and (cut := _second_loop(current, ender)):
                found.append(Iteration(current.happenings[:cut]))
                current = Iteration(current.happenings[cut:])
            ender, around = happening, frames
        current.happenings.append(happening)
    return [i for i in (*found, current) if i.happenings]


def _shown(recording: Recording, marked: frozenset[int]) -> list[Happening]:
    wanted = [
        h
        for h in recording.happenings
        if not isinstance(h, Met | Surveyed | Ended) and (not isinstance(h, _QUIET) or h.index in marked)
    ]
    return _syncs_behind(_raised_once(wanted, marked))


def _raised_once(happenings: list[Happening], marked: frozenset[int]) -> list[Happening]:
    """An exception is told by the call it came out of, and again when it leaves the script."""
    kept: list[Happening] = []
    for happening in happenings:
        last = kept[-1] if kept else None
        if not isinstance(last, Raised) or not isinstance(happening, Raised) or not _same_exception(last, happening):
            kept.append(happening)
        elif happening.index in marked and last.index not in marked:
            kept[-1] = happening
    return kept


def _same_exception(one: Raised, other: Raised) -> bool:
    return (one.type, one.message) == (other.type, other.message)


def _syncs_behind(happenings: list[Happening]) -> list[Happening]:
    """The exchanges that a backward made are recorded before it is over; they are shown behind it."""
    ordered: list[Happening] = []
    waiting: list[Happening] = []
    for happening in happenings:
        if isinstance(happening, Synced):
            waiting.append(happening)
            continue
        if isinstance(happening, BackwardRan):
            ordered += [happening, *waiting]
        else:
            ordered += [*waiting, happening]
        waiting = []
    return ordered + waiting


def _enders(steps: Sequence[Stepped]) -> frozenset[str]:
    """The optimizers whose step ends an iteration: one of each group that takes turns."""
    firsts: dict[str, int] = {}
    lasts: dict[str, int] = {}
    counts: dict[str, int] = {}
    for at, step in enumerate(steps):
        firsts.setdefault(step.owner, at)
        lasts[step.owner] = at
        counts[step.owner] = counts.get(step.owner, 0) + 1
    groups: list[tuple[int, list[str]]] = []  # by the position at which the group ends
    for owner in sorted(firsts, key=firsts.__getitem__):
        if groups and firsts[owner] <= groups[-1][0]:
            groups[-1][1].append(owner)
            groups[-1] = (max(groups[-1][0], lasts[owner]), groups[-1][1])
        else:
            groups.append((lasts[owner], [owner]))
    enders = set[str]()
    for _, group in groups:
        most = max(counts[o] for o in group)
        regular = [o for o in group if counts[o] * _RARE >= most]
        enders.add(min(regular, key=lambda o: (counts[o], -firsts[o])))
    return frozenset(enders)


def _turned(step: Stepped, around: tuple[Turn, ...], later: Happening, frames: tuple[Turn, ...]) -> bool:
    """The loop that the step is in has turned round since."""
    turns = {f.loop: f.turn for f in around}
    if any(turns.get(f.loop, f.turn) != f.turn for f in frames):
        return True
    if around and frames:
        return False
    # no loop is known (no source, or code that somebody else calls): a line further up, or the next pass
    if step.place is None or later.place is None or step.place.file != later.place.file:
        return isinstance(later, Forwarded | BackwardRan)
    if step.place.call == later.place.call and step.place.line != later.place.line:
        return later.place.line < step.place.line
    return isinstance(later, Forwarded | BackwardRan)


def _second_loop(iteration: Iteration, ender: Stepped) -> int:
    """Where a second loop began behind the last turn of the first one; 0 if the step is only repeated."""
    behind = next(n for n, h in enumerate(iteration.happenings) if h is ender) + 1
    for at, happening in enumerate(iteration.happenings[behind:], behind):
        if isinstance(happening, Forwarded | BackwardRan):
            opened = isinstance(iteration.happenings[0], Zeroed)
            while opened and at > behind and isinstance(iteration.happenings[at - 1], Zeroed):
                at -= 1
            return at
    return 0
