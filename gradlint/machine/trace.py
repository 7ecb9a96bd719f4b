"""One path as each optimizer lives it: its own events, cut into windows that end with a step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

from gradlint.events import (
    Backward,
    Clip,
    Edit,
    EditKind,
    Event,
    Frame,
    Mark,
    Opaque,
    OptimizerRef,
    Params,
    Path,
    Read,
    Save,
    Schedule,
    Step,
    Unscale,
    Update,
    Zero,
)
from gradlint.records import dataclass, field

E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class Window:
    """What happened to one optimizer's gradients between two of its steps."""

    number: int
    events: list[Event] = field(default_factory=list)
    step: Step | None = None
    #: it is known to have one micro-batch
    single: bool = False

    def of(self, kind: type[E]) -> Iterator[E]:
        return (e for e in self.events if isinstance(e, kind))

    def after(self, event: Event, kind: type[E]) -> Iterator[E]:
        return (e for e in self.events if isinstance(e, kind) and e.index > event.index)

    def before(self, event: Event, kind: type[E]) -> Iterator[E]:
        return (e for e in self.events if isinstance(e, kind) and e.index < event.index)

    def between(self, first: Event, last: Event, kind: type[E]) -> Iterator[E]:
        return (e for e in self.events if isinstance(e, kind) and first.index < e.index < last.index)

    @property
    def accumulates(self) -> bool:
        """The same backward runs several times, in several turns, before the step."""
        if self.by_hand:
            return False
        seen: list[Backward] = []
        for backward in self.of(Backward) if not self.single else ():
            if any(same_loss(first, backward) and first.frames != backward.frames for first in seen):
                return True
            seen.append(backward)
        return False

    @property
    def by_hand(self) -> bool:
        """The code puts the step's gradients together itself: writes them anew, or keeps them when they are cleared."""
        if any(edit.kind is EditKind.NEW for edit in self.of(Edit)):
            return True
        return any(True for save in self.of(Save) for _ in self.after(save, Zero))

    @property
    def closes(self) -> bool:
        """It accumulates and is known to end at a boundary: a modulo, a full counter, an inner loop."""
        if self.step is None or not self.accumulates:
            return False
        return bool(self.step.window) or bool(self.micro_loop) or self.step.framework.windows

    @property
    def micro_loop(self) -> str:
        """N of the inner loop over micro-batches that the backwards are in and the step is not."""
        if self.step is None:
            return ""
        around = {f.loop for f in self.step.frames}
        for backward in self.of(Backward):
            for frame in backward.frames:
                if frame.loop not in around and frame.window:
                    return frame.window
        return ""

    @property
    def size_text(self) -> str:
        """The user's own words for N; just N if there are none, or too many."""
        text = (self.step.window if self.step else "") or self.micro_loop
        return (
            text if text and len(text) <= 40 and ("(" not in text or " / " in text or text.startswith("len(")) else "N"
        )

    @property
    def size_shown(self) -> str:
        """N for a message: in backticks if these are the user's words."""
        return "N" if self.size_text == "N" else f"`{self.size_text}`"

    @property
    def size(self) -> int | None:
        """N as a number, where the file says it: of loops inside of each other the product."""
        parts = [f.size for f in self.inner_frames]
        if self.step is not None and self.step.window:
            parts.append(self.step.size)
        total = 1
        for part in parts:
            if part is None:
                return None
            total *= part
        return total if parts else None

    @property
    def inner_frames(self) -> list[Frame]:
        """The loops that the first backward is in and the step is not: their turns make up the window."""
        first = next(self.of(Backward), None)
        around = {f.loop for f in self.step.frames} if self.step else set()
        return [f for f in first.frames if f.loop not in around] if first is not None and self.step else []

    def counts(self, text: str, number: float | None) -> bool:
        """Whether this text, or this number, is the N of the window; names are compared by their last part."""
        size = self.size
        if number is not None and size is not None:
            return abs(number - size) < 1e-6 * size
        told = (
            [self.step.window] if self.step is not None and self.step.window else [f.count for f in self.inner_frames]
        )
        return len(told) == 1 and bool(text) and _last_part(text) == _last_part(told[0])

    @property
    def inner_loop(self) -> bool:
        """The backwards are in a loop that the step is not in."""
        around = {f.loop for f in self.step.frames} if self.step else set()
        return any(f.loop not in around for b in self.of(Backward) for f in b.frames)


@dataclass(slots=True)
class Life:
    """One optimizer's part in a path."""

    optimizer: OptimizerRef
    windows: list[Window] = field(default_factory=list)
    of_event: dict[int, Window] = field(default_factory=dict)

    @property
    def accumulates(self) -> bool:
        return any(w.accumulates and w.step is not None for w in self.windows)

    def events(self, kind: type[E]) -> Iterator[E]:
        for window in self.windows:
            yield from window.of(kind)


@dataclass(slots=True)
class Trace:
    """A path, with the lives of its optimizers."""

    path: Path
    lives: dict[str, Life]

    @property
    def events(self) -> tuple[Event, ...]:
        return self.path.events


def same_loss(a: Backward, b: Backward) -> bool:
    """The same backward again, or another one of the same loss (in the other arm of a condition)."""
    return a.site == b.site or (a.loss == b.loss and a.frames != b.frames)


def same_turn(a: Event, b: Event) -> bool:
    """Both happened in the same turn of every loop that both are in."""
    turns = {f.loop: f.turn for f in a.frames}
    return all(turns.get(f.loop, f.turn) == f.turn for f in b.frames)


def share_loop(a: Event, b: Event) -> bool:
    """They are in a common loop (or both in none)."""
    loops = {f.loop for f in a.frames}
    return any(f.loop in loops for f in b.frames) or (not a.frames and not b.frames)


def build(path: Path) -> Trace:
    """Cuts a path into lives and windows."""
    used = _used_optimizers(path)
    lives = {ref.id: Life(ref) for ref in used}
    unreached = _unreached(path, used)
    touched = _Touched(path, used, unreached)
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
    """Those that step or clear; one that is only made is of no interest."""
    ids = {e.optimizer for e in path.events if isinstance(e, Step | Unscale | Zero) and e.optimizer}
    return [ref for ref in path.optimizers.values() if ref.id in ids]


def _unreached(path: Path, used: list[OptimizerRef]) -> set[str]:
    """Optimizers that no backward seems to reach: what is known of their parameters must be wrong."""
    backwards = [e for e in path.events if isinstance(e, Backward)]
    return {ref.id for ref in used if not any(b.params.may_meet(ref.params) for b in backwards)}


def _stray(path: Path, used: list[OptimizerRef], unreached: set[str]) -> dict[str, set[int]]:
    """Backwards that reach an optimizer's parameters but are meant for another, which steps right behind them.

    A generator's loss goes through the discriminator; what it leaves there is none of that one's business.
    """
    backwards: list[Backward] = []
    #: who steps right behind a backward, in any turn: within a window only the last one has a step behind it
    meant: dict[int, set[str]] = {}
    for event in path.events:
        if isinstance(event, Backward):
            backwards.append(event)
            meant.setdefault(event.site.node, set())
        elif isinstance(event, Step) and backwards:
            meant[backwards[-1].site.node].add(event.optimizer)
    strays: dict[str, set[int]] = {}
    for ref in used:
        mine = [b for b in backwards if ref.id in unreached or b.params.may_meet(ref.params)]
        foreign = {b.index for b in mine if meant[b.site.node] and ref.id not in meant[b.site.node]}
        if len(foreign) < len(mine):
            strays[ref.id] = foreign
    return strays


class _Touched:
    """Finds the optimizers whose gradients an event touches."""

    def __init__(self, path: Path, used: list[OptimizerRef], unreached: set[str]) -> None:
        self._used = used
        self._ids = [ref.id for ref in used]
        self._unreached = unreached
        self._filled: set[str] = set()
        self._stray = _stray(path, used, unreached)

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
                return [
                    r.id
                    for r in self._used
                    if (r.id in self._unreached or event.params.may_meet(r.params))
                    and event.index not in self._stray.get(r.id, ())
                ]
            case Clip():
                return self._named_alike(event.target, self._holders(event.params))
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
            return event.optimizer == ref.id or _surely_meet(event.params, ref.params)
        return event.params.may_meet(ref.params)

    def _holders(self, params: Params) -> list[str]:
        """Of several candidates those that hold fresh gradients: the clip in question is theirs."""
        candidates = [r.id for r in self._used if params.may_meet(r.params)]
        holding = [k for k in candidates if k in self._filled]
        if holding and (not params.known or len(candidates) > 1):
            return holding
        return candidates

    def _named_alike(self, target: str, keys: list[str]) -> list[str]:
        """Of several optimizers whose parameters are unknown, the one that is named after what is clipped."""
        mine = _name_words(target)
        alike = [r.id for r in self._used if r.id in keys and not r.params.known and _share(mine, _name_words(r.text))]
        return alike if alike and len(keys) > 1 else keys

    def _scheduled(self, event: Schedule) -> list[str]:
        if event.optimizer in self._ids:
            return [event.optimizer]
        return list(self._ids) if len(self._ids) == 1 and event.optimizer is None else []


def _last_part(text: str) -> str:
    """`self.accum`, `args["accum"]` and a parameter `accum` are the same number."""
    return re.split(r"[.\[]", text.replace(" ", ""))[-1].strip("\"'])")


def _surely_meet(a: Params, b: Params) -> bool:
    return a.known and b.known and a.may_meet(b)


def _name_words(text: str) -> set[str]:
    """`self.actor_optimizer` -> {actor}: what is said beside that it is an optimizer or a model."""
    return set(re.findall(r"[a-z0-9]+", text.lower().replace("_", " "))) - _USUAL_WORDS


def _share(some: set[str], others: set[str]) -> bool:
    """A word in common; one letter may stand for a word (`g_opt`, `generator`)."""
    return any(a == b or (1 in (len(a), len(b)) and a[0] == b[0]) for a in some for b in others)


_USUAL_WORDS = {
    "self", "optimizer", "optimizers", "optim", "opt", "parameters", "params", "model", "net", "network", "module",
}  # fmt: skip
