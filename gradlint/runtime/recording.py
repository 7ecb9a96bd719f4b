"""What a run leaves behind: what happened to gradients, where, in numbers. Plain data, without torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code; `call` tells one call of the function from the next."""

    file: str
    line: int
    function: str = ""
    call: int = 0


@dataclass(frozen=True, slots=True)
class Gradient:
    """The gradients of one optimizer at one moment."""

    optimizer: str
    #: the total norm as it is stored, multiplied by the scale if they are scaled
    norm: float
    #: what the gradients are multiplied by; 1 where they are true
    scale: float = 1.0
    #: a clip has been at them since the last backward
    clipped: bool = False
    #: averaged over all ranks; None where nothing is distributed
    reduced: bool | None = None
    #: parameters that have a gradient, of how many
    present: int = 0
    total: int = 0
    #: backwards that made them, since they were last cleared or used
    backwards: int = 0

    @property
    def true(self) -> float:
        """The norm in true units."""
        return self.norm / self.scale if self.scale else math.nan

    @property
    def finite(self) -> bool:
        return math.isfinite(self.norm)

    @property
    def label(self) -> str:
        """`true, before the clip, reduced`."""
        units = "true" if self.scale == 1.0 else f"scaled by {self.scale:g}"
        clip = "after the clip" if self.clipped else "before the clip"
        ranks = "" if self.reduced is None else ", reduced" if self.reduced else ", local"
        return f"{units}, {clip}{ranks}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter with which something may be wrong, as it was at the end of a run."""

    name: str
    #: the class of the layer that it belongs to; "" if no model that ran has it
    layer: str = ""
    #: that has it; "" if none has
    optimizer: str = ""
    trainable: bool = True
    #: it had a gradient at a step
    fed: bool = False
    #: its layer ran "with a graph", "without a graph" (no_grad), or not at all
    ran: str = ""
    #: nothing that its layer was given needs a gradient: the data comes in there
    first: bool = False
    #: its layer is in training mode
    awake: bool = True
    #: its model has parameters that an optimizer moves
    related: bool = False
    #: the share of its numbers whose gradient was exactly 0 at every step, and how many steps that were
    dead: float = 0.0
    steps: int = 0
    #: where its layer was called
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened in a run. Subclasses say what.

    `places` are the frames of the user's code that led to it, the innermost first; empty if there is none.
    `gradients` are those of the optimizers it touched, as they are afterwards; `before` as they were before, where
    the two differ and it matters (clip, unscale, edit, step).
    """

    KIND: ClassVar[str] = ""

    index: int
    places: tuple[Place, ...] = ()
    #: the optimizers (ids) whose parameters it touched
    optimizers: tuple[str, ...] = ()
    gradients: tuple[Gradient, ...] = ()
    before: tuple[Gradient, ...] = ()

    @property
    def place(self) -> Place | None:
        return self.places[0] if self.places else None

    def gradient_of(self, optimizer: str) -> Gradient | None:
        return next((g for g in self.gradients if g.optimizer == optimizer), None)

    def before_of(self, optimizer: str) -> Gradient | None:
        return next((g for g in self.before if g.optimizer == optimizer), None)


@dataclass(frozen=True, slots=True)
class Met(Happening):
    """An optimizer, scaler, scheduler or distributed model was made; its id is used by all that follows."""

    KIND = "met"

    id: str = ""
    #: "optimizer", "scaler", "scheduler", "model"
    role: str = ""
    #: the class: `AdamW`, `GradScaler`, `CosineAnnealingLR`, `DistributedDataParallel`
    type: str = ""
    #: scalers: whether they do anything; None for the others
    enabled: bool | None = None
    #: optimizers: how many parameters (tensors); schedulers: 0
    parameters: int = 0
    #: schedulers: the optimizer they move
    optimizer: str = ""


@dataclass(frozen=True, slots=True)
class Zeroed(Happening):
    """Gradients were cleared."""

    KIND = "zero"

    #: "optimizer", "module", "assignment" (`p.grad = None`), "in-place" (`p.grad.zero_()`)
    by: str = "optimizer"
    #: the optimizer whose own zero_grad() it was
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Forwarded(Happening):
    """A model was called from the user's code."""

    KIND = "forward"

    model: str = ""
    type: str = ""
    #: distributed models: whether this pass prepared for a synchronisation (None: not distributed)
    sync: bool | None = None
    autocast: str = ""
    #: it is in eval mode, and has layers of these kinds, which then do something else
    asleep: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BackwardRan(Happening):
    """Gradients were made, and added to what was there."""

    KIND = "backward"

    loss: float | None = None
    #: what the loss was multiplied by before this backward, read off the top of the graph, without the scale:
    #: 1 for a raw loss, 0.25 for `loss / 4`; None where it cannot be told
    factor: float | None = None
    #: several losses were added up with different factors
    mixed: bool = False
    #: the grad_fn on top, the scale and such factors taken off: `MseLossBackward0`, `SumBackward0`
    root: str = ""
    scaler: str = ""
    scale: float = 1.0
    #: dtype of the active autocast region the backward stands in; "" outside of any
    autocast: str = ""
    #: the distributed model whose gradients it made, "DistributedDataParallel" / "FullyShardedDataParallel" /
    #: "fully_shard", and whether it synchronised when asked in the forward / in the backward
    model: str = ""
    wrap: str = ""
    forward_sync: bool | None = None
    backward_sync: bool | None = None
    #: exchanges between ranks (all-reduces, reduce-scatters: buckets) that this backward made
    syncs: int = 0
    #: "Accelerate", "Fabric", "DeepSpeed", or "" for plain PyTorch
    manager: str = ""
    #: what the manager divides the loss by, beside `factor`
    managed_division: float = 1.0
    #: hooks of the user's changed the gradients on their way to the parameters
    hooked: bool = False
    #: what made the loss NaN or Inf, or can have made the gradients so, if they are
    made_by: str = ""
    #: graphs of earlier backwards that are still alive
    alive: int = 0


@dataclass(frozen=True, slots=True)
class Unscaled(Happening):
    """`scaler.unscale_(optimizer)` by the user."""

    KIND = "unscale"

    scaler: str = ""
    owner: str = ""
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Edited(Happening):
    """The user's code wrote into `.grad`."""

    KIND = "edit"

    #: "divide" and "scale" (all by one factor, under or over 1), "reduce" (a collective), "noise", "clamp",
    #: "new" (others in their place, made without a look at them), "other"
    how: str = "other"
    factor: float | None = None


@dataclass(frozen=True, slots=True)
class Looked(Happening):
    """The user's code read `.grad` and left it as it was."""

    KIND = "read"


@dataclass(frozen=True, slots=True)
class Clipped(Happening):
    """Gradients were clipped."""

    KIND = "clip"

    #: the function: `clip_grad_norm_`, `clip_grad_value_`, `FullyShardedDataParallel.clip_grad_norm_`
    function: str = ""
    #: "norm" or "value"
    how: str = "norm"
    limit: float | None = None
    #: what the function returned: the norm before the clip, as it was seen there
    returned: float | None = None
    #: parameters it was handed, and how many of them had a gradient
    parameters: int = 0
    present: int = 0
    #: it was handed an iterator that somebody had used up before
    exhausted: bool = False
    #: the line that used it up
    exhausted_by: Place | None = None
    #: parameters of the touched optimizers that have a gradient and were not handed to the clip
    missed: int = 0
    #: between the gradients before and after
    cosine: float | None = None
    wrap: str = ""
    manager: str = ""
    #: the function unscaled by itself (Accelerate, Fabric)
    unscales: bool = False

    @property
    def active(self) -> bool | None:
        """The clip changed something; None where that cannot be told."""
        if self.how != "norm" or self.returned is None or self.limit is None:
            return None if self.cosine is None else self.cosine < 1 - 1e-7
        return self.returned > self.limit


@dataclass(frozen=True, slots=True)
class Synced(Happening):
    """One bucket of gradients was averaged over the ranks, or reduced and scattered."""

    KIND = "sync"

    #: "all-reduce" or "reduce-scatter"
    how: str = "all-reduce"
    model: str = ""
    elements: int = 0


@dataclass(frozen=True, slots=True)
class Stepped(Happening):
    """An optimizer used its gradients, or the scaler skipped it. `before`: the gradients it used."""

    KIND = "step"

    owner: str = ""
    #: counts the steps of this optimizer from 1, skipped ones too
    number: int = 0
    skipped: bool = False
    scaler: str = ""
    closure: bool = False
    #: learning rates of the parameter groups
    rates: tuple[float, ...] = ()
    #: parameters that want no gradient
    frozen: int = 0
    #: norm of the change of the weights; None if it was skipped
    moved: float | None = None
    #: norm and sum of all weights afterwards: equal on all ranks if these agree
    weights: tuple[float, float] | None = None
    #: the same before it, of the first step
    start: tuple[float, float] | None = None
    manager: str = ""

    @property
    def used(self) -> Gradient | None:
        """The gradients of its optimizer that it used."""
        return self.before_of(self.owner) or self.gradient_of(self.owner)


@dataclass(frozen=True, slots=True)
class Updated(Happening):
    """`scaler.update()`."""

    KIND = "update"

    scaler: str = ""
    scale: float = 1.0
    #: the scale afterwards
    new_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Scheduled(Happening):
    """A learning-rate scheduler moved on."""

    KIND = "schedule"

    scheduler: str = ""
    owner: str = ""
    rates: tuple[float, ...] = ()
    new_rates: tuple[float, ...] = ()
    #: it was told where in the schedule it is: `step(epoch + i / n)`, `step(metric)`
    told: bool = False
    manager: str = ""


@dataclass(frozen=True, slots=True)
class LoaderTurned(Happening):
    """A DataLoader of the user's loop began an epoch or was exhausted."""

    KIND = "loader"

    loader: str = ""
    over: bool = False


@dataclass(frozen=True, slots=True)
class Warned(Happening):
    """torch warned about something the user's code did."""

    KIND = "warning"

    category: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Raised(Happening):
    """An exception left the script, or came out of one of the watched calls (`during`: its kind)."""

    KIND = "error"

    type: str = ""
    message: str = ""
    during: str = ""
    #: calls of a scaler: its id, and the optimizer that was handed to it
    scaler: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Surveyed(Happening):
    """At the end: the parameters of models and optimizers that stand out."""

    KIND = "survey"

    rows: tuple[Parameter, ...] = ()
    #: biases of layers with dead units
    units: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended(Happening):
    """The last line of a process: "finished", "enough" (stopped after the wanted steps), "exit", "raised"."""

    KIND = "end"

    how: str = "finished"
    code: int = 0


KINDS: dict[str, type[Happening]] = {
    kind.KIND: kind
    for kind in (
        Met, Zeroed, Forwarded, BackwardRan, Unscaled, Edited, Looked, Clipped, Synced, Stepped, Updated, Scheduled,
        LoaderTurned, Warned, Raised, Surveyed, Ended,
    )
}  # fmt: skip

H = TypeVar("H", bound=Happening)


@dataclass(slots=True)
class Recording:
    """All that one process left behind."""

    pid: int
    rank: int = 0
    world: int = 1
    device: str = "cpu"
    torch: str = ""
    #: things worth telling: "a scaler made for cuda was run on the CPU"
    notes: list[str] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)

    def of(self, kind: type[H]) -> Iterator[H]:
        return (h for h in self.happenings if isinstance(h, kind))

    def met(self, identity: str) -> Met | None:
        return next((m for m in self.of(Met) if m.id == identity), None)

    def steps_of(self, optimizer: str) -> list[Stepped]:
        return [s for s in self.of(Stepped) if s.owner == optimizer]

    @property
    def steps(self) -> int:
        """Optimizer steps; of several optimizers those of the busiest."""
        return max((s.number for s in self.of(Stepped)), default=0)

    @property
    def end(self) -> Ended | None:
        """None if the process was killed."""
        return next(self.of(Ended), None)
