"""One path as each optimizer lives it: its own events, cut into windows that end with a step."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import TypeAlias

from gradlint.events import (
    NEVER,
    Backward,
    Clip,
    Edit,
    Event,
    Mark,
    Opaque,
    OptimizerRef,
    Params,
    Read,
    Save,
    Schedule,
    Site,
    Step,
    Unscale,
    Update,
    Zero,
)
from gradlint.records import replace
from gradlint.states import Life, Path, Trace, Window

#: the calls that lead to a statement, and the statement
_Places: TypeAlias = tuple[Site, ...]


def build(path: Path) -> Trace:
    """Cuts a path into lives and windows."""
    used = _used_optimizers(path)
    lives = {ref.id: Life(ref) for ref in used}
    touched = _Touched(path, used)
    for event in path.events:
        for key in touched.by(event):
            life = lives[key]
            if not life.windows or life.windows[-1].step is not None:
                life.windows.append(Window(len(life.windows), single=path.single))
            window = life.windows[-1]
            window.events.append(event)
            life.of_event[event.index] = window
            if isinstance(event, Step):
                window.step = event
    return Trace(path, lives)


def _used_optimizers(path: Path) -> list[OptimizerRef]:
    """Those that step or clear; one that is only made is of no interest. One that acts when its name stands for
    another one is kept elsewhere, in a list perhaps, and was not gone."""
    last = {e.optimizer: e.index for e in path.events if isinstance(e, Step | Unscale | Zero) and e.optimizer}
    used = [ref for ref in path.optimizers.values() if ref.id in last]
    return [replace(ref, until=NEVER) if ref.until <= last[ref.id] else ref for ref in used]


def _unreached(used: list[OptimizerRef], backwards: list[Backward]) -> set[str]:
    """Optimizers that no backward seems to reach: what is known of their parameters must be wrong."""
    return {ref.id for ref in used if not any(b.params.may_meet(ref.params) for b in backwards)}


class _Backwards:
    """Which backwards are whose, where their parameters alone do not tell, or tell something that cannot be."""

    def __init__(self, path: Path, used: list[OptimizerRef]) -> None:
        self._all = [e for e in path.events if isinstance(e, Backward)]
        places = {b.places for b in self._all}
        #: those that only the usual path comes by: whose they are has its backward, though a flag leaves it out here
        self._left_out = [e for e in path.usually if isinstance(e, Backward) and e.places not in places]
        backwards = [*self._all, *self._left_out]
        self._unreached = _unreached(used, backwards)
        #: who steps right behind a backward, in any turn: within a window only the last one has a step behind it; a
        #: helper's is another one for each of its callers
        self._meant: dict[_Places, set[str]] = {b.places: set() for b in backwards}
        #: the same, where the step is all that happens to its gradients in between
        self._direct: dict[_Places, set[str]] = {b.places: set() for b in backwards}
        #: where a backward is left out, its step comes behind the one before it, which is none of its business
        usually = path.usually if self._left_out else ()
        self._find_steps(usually, frozenset())
        self._find_steps(path.events, {e.places for e in usually if isinstance(e, Backward)})
        self._strays: dict[str, set[int]] = {}
        self._unseen: dict[str, set[_Places]] = {}
        for ref in used:
            self._settle(ref)

    def reach(self, backward: Backward, ref: OptimizerRef) -> bool:
        if backward.places in self._unseen.get(ref.id, ()):
            return True
        return self._may_reach(backward, ref) and backward.index not in self._strays.get(ref.id, ())

    def _may_reach(self, backward: Backward, ref: OptimizerRef) -> bool:
        return ref.id in self._unreached or backward.params.may_meet(ref.params)

    def _find_steps(self, events: tuple[Event, ...], known: Set[_Places]) -> None:
        last: _Places | None = None
        cleared: set[str | None] = set()
        for event in events:
            if isinstance(event, Backward):
                last = event.places if event.places not in known else None
                cleared.clear()
            elif isinstance(event, Zero):
                cleared.add(event.optimizer)
            elif isinstance(event, Step) and last is not None:
                self._meant[last].add(event.optimizer)
                if not cleared & {event.optimizer, None}:
                    self._direct[last].add(event.optimizer)

    def _settle(self, ref: OptimizerRef) -> None:
        """Backwards that reach an optimizer's parameters but are meant for another, which steps right behind them.

        A generator's loss goes through the discriminator; what it leaves there is none of that one's business. If they
        all are, then not all of its own loss was seen: it is the one that this optimizer alone steps behind.
        """
        mine = [b for b in self._all if self._may_reach(b, ref)]
        foreign = {b.index for b in mine if self._is_foreign(b, ref)}
        elsewhere = any(self._may_reach(b, ref) and not self._is_foreign(b, ref) for b in self._left_out)
        if len(foreign) == len(mine) and not elsewhere:
            self._unseen[ref.id] = {places for places, direct in self._direct.items() if direct == {ref.id}}
        if elsewhere or len(foreign) < len(mine) or self._unseen[ref.id]:
            self._strays[ref.id] = foreign

    def _is_foreign(self, backward: Backward, ref: OptimizerRef) -> bool:
        return bool(self._meant[backward.places]) and ref.id not in self._meant[backward.places]


class _Touched:
    """Finds the optimizers whose gradients an event touches."""

    def __init__(self, path: Path, used: list[OptimizerRef]) -> None:
        self._used = used
        self._ids = [ref.id for ref in used]
        self._filled: set[str] = set()
        self._backwards = _Backwards(path, used)

    def by(self, event: Event) -> list[str]:
        keys = self._find(event)
        if isinstance(event, Backward):
            self._filled.update(keys)
        elif isinstance(event, Step):
            self._filled.discard(event.optimizer)
        elif isinstance(event, Zero):
            self._filled.difference_update(keys)
        return keys

    def _find(self, event: Event) -> list[str]:
        alive = {ref.id for ref in self._used if ref.since <= event.index < ref.until}
        return [key for key in self._candidates(event) if key in alive]

    def _candidates(self, event: Event) -> list[str]:
        match event:
            case Step():
                return [event.optimizer] if event.optimizer in self._ids else []
            case Unscale():
                return [event.optimizer] if event.optimizer in self._ids else list(self._ids)
            case Zero():
                return [r.id for r in self._used if self._zeroes(event, r)]
            case Backward():
                return [r.id for r in self._used if self._backwards.reach(event, r)]
            case Clip():
                return self._named_alike(" ".join((event.target, *event.params.owners)), self._holders(event.params))
            case Edit() | Read():
                return self._named_alike(" ".join(event.params.owners), self._holders(event.params))
            case Save():
                return self._holders(event.params)
            case Schedule():
                return self._scheduled(event)
            case Opaque():
                return [k for k in self._ids if event.optimizers is None or k in event.optimizers]
            case Update() | Mark():
                return list(self._ids)
            case _:
                return []

    @staticmethod
    def _zeroes(event: Zero, ref: OptimizerRef) -> bool:
        if event.optimizer is not None:
            named = event.optimizer == ref.id or _is_one_of(ref.id, event.optimizer)
            return named or _surely_meet(event.params, ref.params)
        return event.params.may_meet(ref.params)

    def _holders(self, params: Params) -> list[str]:
        """Of several candidates those that hold fresh gradients: the clip in question is theirs. Where none does, those
        that are known to have these parameters."""
        candidates = [r.id for r in self._used if params.may_meet(r.params)]
        holding = [k for k in candidates if k in self._filled]
        if holding and (not params.known or len(candidates) > 1):
            return holding
        return [r.id for r in self._used if _surely_meet(params, r.params)] or candidates

    def _named_alike(self, target: str, keys: list[str]) -> list[str]:
        """Of several optimizers whose parameters are unknown, the one that is named after what is clipped."""
        if len(keys) < 2:
            return keys
        words = {r.id: _name_words(r.text) for r in self._used if r.id in keys and not r.params.known}
        common = set.intersection(*words.values()) if len(words) > 1 else set()
        mine = _name_words(target) - common  # whose they all are says nothing
        return [key for key, its in words.items() if _share(mine, its - common)] or keys

    def _scheduled(self, event: Schedule) -> list[str]:
        if event.optimizer in self._ids:
            return [event.optimizer]
        return list(self._ids) if len(self._ids) == 1 and event.optimizer is None else []


def _is_one_of(key: str, entry: str) -> bool:
    """`optimizers[*]`, the entry that a loop over all of them gives, stands for `optimizers["critic"]`, too."""
    many, _, index = entry.partition("[")
    return "*]" in index and key.startswith(f"{many}[")


def _surely_meet(a: Params, b: Params) -> bool:
    return a.known and b.known and a.may_meet(b)


def _name_words(text: str) -> set[str]:
    """`self.actor_optimizer` -> {actor}, `netD.parameters()` -> {d}: what is said beside that it is an optimizer or a
    model."""
    apart = _HUMP.sub(" ", text.replace("_", " "))
    return set(re.findall(r"[a-z0-9]+", apart.lower())) - _USUAL_WORDS


_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _share(some: set[str], others: set[str]) -> bool:
    """A word in common; one letter may stand for a word (`g_opt`, `generator`)."""
    return any(a == b or (1 in (len(a), len(b)) and a[0] == b[0]) for a in some for b in others)


_USUAL_WORDS = {
    "self", "optimizer", "optimizers", "optim", "opt", "parameters", "params", "model", "net", "network", "module",
}  # fmt: skip
