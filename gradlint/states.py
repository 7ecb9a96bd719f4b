"""The state of one optimizer's gradients, how each event moves it on, and the window and the path that it is in."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from gradlint.events import (
    Backward,
    Clip,
    Doubt,
    Edit,
    EditKind,
    Event,
    Mark,
    Opaque,
    OptimizerRef,
    Save,
    ScalerRef,
    Step,
    Turn,
    Unscale,
    Update,
    Zero,
)
from gradlint.records import dataclass, field

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Path:
    """One way through the code: what happened in order, and what had to be assumed for it."""

    events: tuple[Event, ...]
    optimizers: Mapping[str, OptimizerRef]
    #: how many decisions differ from the usual ones
    unusual: int = 0
    decisions: Mapping[str, bool] = field(default_factory=dict)
    #: the function that the path starts with; "" where the program starts
    entry: str = ""
    #: the made-up loop round a function that is called for each batch from elsewhere
    entry_loop: int = -1
    #: what zero_grad is called on, anywhere in the file (the texts), though perhaps not on this path
    file_zeroes: frozenset[str] = frozenset()
    file_unscales: bool = False
    #: what `.update()` is called on, likewise
    file_updates: frozenset[str] = frozenset()
    #: the number of its starting point (-1: the module), which tells functions of one name apart
    start: int = -1
    #: the decisions that differ from the usual ones
    forced: frozenset[tuple[str, bool]] = frozenset()
    #: its budget was spent before its end
    exhausted: bool = False
    #: it was decided on it that a window has one micro-batch: nothing accumulates
    single: bool = False
    #: unknown calls between the events
    doubts: tuple[Doubt, ...] = ()
    #: the events of the usual path, if this is another one: a flag may have left some of them out
    usually: tuple[Event, ...] = ()
    #: it is a run: no flag could have decided otherwise, and it may end with a call that torch refused
    happened: bool = False

    @property
    def whole(self) -> bool:
        """The path starts where the program starts, not at a function that others call."""
        return not self.entry

    def of(self, kind: type[E]) -> Iterator[E]:
        return (e for e in self.events if isinstance(e, kind))

    def before(self, event: Event, kind: type[E]) -> Iterator[E]:
        return (e for e in self.events[: event.index] if isinstance(e, kind))

    def after(self, event: Event, kind: type[E]) -> Iterator[E]:
        return (e for e in self.events[event.index + 1 :] if isinstance(e, kind))

    def between(self, first: Event, last: Event, kind: type[E]) -> Iterator[E]:
        return (e for e in self.events[first.index + 1 : last.index] if isinstance(e, kind))


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
            if any(first.same_loss(backward) and first.frames != backward.frames for first in seen):
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
    def steps_late(self) -> bool:
        """Its step does not come in every turn: a condition, a loop round the backwards, or a framework delays it."""
        return self.step is not None and (bool(self.step.window) or self.inner_loop or self.step.framework.windows)

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
    def inner_frames(self) -> list[Turn]:
        """The loops that the first backward is in and the step is not: their turns make up the window."""
        first = next(self.of(Backward), None)
        around = {f.loop for f in self.step.frames} if self.step else set()
        return [f for f in first.frames if f.loop not in around] if first is not None and self.step else []

    @property
    def closed_in(self) -> str | None:
        """The file of the condition that closes it, or of the loop over its micro-batches, if there is one."""
        if self.step is not None and self.step.window and self.step.guard is not None:
            return self.step.guard.path
        return self._loop_in

    @property
    def counted_in(self) -> str | None:
        """The file that knows its N: where a condition counts, which may be handed on, or that of the loop."""
        return self.step.counted_in if self.step is not None and self.step.window else self._loop_in

    @property
    def _loop_in(self) -> str | None:
        loops = {frame.loop for frame in self.inner_frames}
        return next((mark.site.path for mark in self.of(Mark) if mark.loop in loops), None)

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
    _steps_in_windows: bool | None = None
    _events: dict[type[Event], list[Any]] = field(default_factory=dict)

    @property
    def steps_in_windows(self) -> bool:
        """One of its steps stands behind a condition that closes a window."""
        if self._steps_in_windows is None:
            self._steps_in_windows = any(step.window for step in self.events(Step))
        return self._steps_in_windows

    @property
    def accumulates(self) -> bool:
        return any(w.accumulates and w.step is not None for w in self.windows)

    def events(self, kind: type[E]) -> list[E]:
        """Those of all windows; rules ask at every step, when the life is known to its end."""
        if kind not in self._events:
            self._events[kind] = [event for window in self.windows for event in window.of(kind)]
        return self._events[kind]


@dataclass(slots=True)
class Trace:
    """A path, with the lives of its optimizers."""

    path: Path
    lives: dict[str, Life]

    @property
    def events(self) -> tuple[Event, ...]:
        return self.path.events


class Phase(enum.Enum):
    """Where in their life the gradients are."""

    UNKNOWN = "unknown"
    EMPTY = "empty"
    FILLED = "filled"
    CONSUMED = "consumed"


@dataclass(slots=True)
class GradientState:
    """What is known before an event. Rules read it; only `advance` writes it."""

    optimizer: OptimizerRef
    path: Path
    life: Life
    phase: Phase = Phase.UNKNOWN
    window: Window = field(default_factory=lambda: Window(0))
    #: backwards whose gradients are there now
    pending: list[Backward] = field(default_factory=list)
    #: backwards that were cleared before any step used them, with the zeroing, in this window
    lost: list[tuple[Backward, Zero]] = field(default_factory=list)
    #: the first of the pending ones came on top of gradients that this step had used already
    stale: Step | None = None
    #: a pending backward whose gradients are still multiplied by the scale
    scaled: Backward | None = None
    unscaled: Unscale | None = None
    clip: Clip | None = None
    last_step: Step | None = None
    last_zero: Zero | None = None
    #: a step through the scaler after which update() has not been called yet
    waiting_update: Step | None = None
    steps: int = 0
    #: what is pending was put aside: clearing does not lose it
    saved: bool = False

    def added_behind(self, event: Event) -> Backward | None:
        """The backward of the next micro-batch: what is pending was made at its place, and it adds to that."""
        sites = {backward.site for backward in self.pending}
        return next((b for b in self.window.after(event, Backward) if b.site in sites), None)

    @property
    def has_backward(self) -> bool:
        """Some backward on this path makes gradients for this optimizer."""
        return bool(self.life.events(Backward))

    def foreign_backwards(self) -> Iterator[Backward]:
        """Backwards that are not meant for this optimizer, and may make gradients for its parameters all the same."""
        own = self.life.of_event
        others = (b for b in self.path.of(Backward) if b.index not in own)
        return (b for b in others if b.params.may_meet(self.optimizer.params))

    def advance(self, event: Event) -> None:
        """Move on."""
        match event:
            case Zero():
                if not self.saved and not event.aborts:
                    self.lost.extend((b, event) for b in self.pending)
                self.pending.clear()
                self.phase, self.stale, self.scaled, self.clip, self.last_zero = Phase.EMPTY, None, None, None, event
                if event.aborts:
                    self.phase = Phase.UNKNOWN
            case Backward():
                if self.phase is Phase.CONSUMED:
                    self.stale = self.last_step
                self.pending.append(event)
                self.phase, self.clip, self.saved = Phase.FILLED, None, False
                if event.scaled:
                    self.scaled = event
            case Unscale():
                self.unscaled, self.scaled = event, None
            case Clip():
                self.clip = event
            case Save():
                self.saved = True
            case Edit():
                self._edited(event)
            case Step():
                self._step(event)
            case Update():
                self._updated(event)
            case Opaque():
                self._forget(event)
            case _:
                pass

    def _edited(self, edit: Edit) -> None:
        """A gradient made by hand is one to step with, and nothing holds for it that held for the old one."""
        if edit.kind is EditKind.NEW:
            self.clip, self.scaled, self.stale = None, None, None
        if edit.unscales:
            self.scaled = None
        if edit.kind is EditKind.NEW or (edit.fresh and self.phase is Phase.EMPTY):
            self.lost.clear()
            self.phase = Phase.FILLED

    def _updated(self, update: Update) -> None:
        """Of several scalers only the one that was updated starts anew."""
        if self.unscaled is not None and _same_scaler(self.unscaled.scaler, update.scaler):
            self.unscaled = None
        if self.waiting_update is not None and _same_scaler(self.waiting_update.scaler, update.scaler):
            self.waiting_update = None

    def own_losses(self) -> list[tuple[Backward, Zero]]:
        """What was cleared unused, without what another optimizer had its step for before."""
        mine = self.optimizer.id
        return [(b, z) for b, z in self.lost if all(s.optimizer == mine for s in self.path.between(b, z, Step))]

    def handed_on(self, edit: Edit) -> tuple[Backward, Step] | None:
        """The last backward of another network whose gradients become those of this one, and the step that has used the
        earlier ones of that network already, if nothing has cleared them since."""
        source = edit.source
        if source is None or any(doubt.clears and doubt.params.may_meet(source) for doubt in self.path.doubts):
            return None
        last: Backward | None = None
        step: Step | None = None
        for event in reversed(self.path.events[: edit.index]):
            match event:
                case Zero() if event.in_place or (event.params.may_meet(source) and not self._is_own(event)):
                    return None
                case Opaque():
                    return None
                case Step():
                    step = event if last is not None else None
                case Backward() if event.params.may_meet(source):
                    if last is not None and step is not None:
                        again = event.site == last.site and event.params.known and not event.anew(last, edit.made_in)
                        return (last, step) if again else None
                    last = last or event
                case _:
                    pass
        return None

    def _is_own(self, zero: Zero) -> bool:
        """Whatever this optimizer holds beside, gradients of another network would not be handed to what it steps."""
        return zero.optimizer == self.optimizer.id and not zero.params.known

    def _step(self, step: Step) -> None:
        self.pending.clear()
        self.lost.clear()
        self.phase, self.last_step, self.steps = Phase.CONSUMED, step, self.steps + 1
        self.scaled, self.clip, self.stale = None, None, None
        if step.scaler is not None:
            self.waiting_update = step

    def _forget(self, opaque: Opaque) -> None:
        self.phase = Phase.UNKNOWN
        self.pending.clear()
        self.lost.clear()
        self.scaled, self.unscaled, self.clip, self.stale = None, None, None, None
        if opaque.scales:
            self.waiting_update = None
        self.last_step = None
        self.steps += 1


def _same_scaler(a: ScalerRef | None, b: ScalerRef | None) -> bool:
    return a is None or b is None or a.id == b.id


def _last_part(text: str) -> str:
    """`self.accum`, `args["accum"]` and a parameter `accum` are the same number."""
    return re.split(r"[.\[]", text.replace(" ", ""))[-1].strip("\"'])")
