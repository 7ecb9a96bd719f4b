"""The state of one optimizer's gradients, and how each event moves it on."""

from __future__ import annotations

import enum

from gradlint.events import (
    Backward,
    Clip,
    Edit,
    EditKind,
    Event,
    Opaque,
    OptimizerRef,
    Path,
    Save,
    ScalerRef,
    Step,
    Unscale,
    Update,
    Zero,
)
from gradlint.machine.trace import Life, Window
from gradlint.records import dataclass, field


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

    @property
    def has_backward(self) -> bool:
        """Some backward on this path makes gradients for this optimizer."""
        return any(True for _ in self.life.events(Backward))

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
                if event.scaler is not None and event.scaler.enabled is not False:
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
                self._forget()
            case _:
                pass

    def _edited(self, edit: Edit) -> None:
        """A gradient made by hand is one to step with, and nothing holds for it that held for the old one."""
        if edit.kind is EditKind.NEW:
            self.clip, self.scaled, self.stale = None, None, None
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
        return [(b, z) for b, z in self.lost if not any(self._foreign(e) for e in self.path.events[b.index : z.index])]

    def _foreign(self, event: Event) -> bool:
        return isinstance(event, Step) and event.optimizer != self.optimizer.id

    def _step(self, step: Step) -> None:
        self.pending.clear()
        self.lost.clear()
        self.phase, self.last_step, self.steps = Phase.CONSUMED, step, self.steps + 1
        self.scaled, self.clip, self.stale = None, None, None
        if step.scaler is not None:
            self.waiting_update = step

    def _forget(self) -> None:
        self.phase = Phase.UNKNOWN
        self.pending.clear()
        self.lost.clear()
        self.scaled, self.unscaled, self.clip, self.stale, self.waiting_update = None, None, None, None, None
        self.last_step = None
        self.steps += 1


def _same_scaler(a: ScalerRef | None, b: ScalerRef | None) -> bool:
    return a is None or b is None or a.id == b.id
