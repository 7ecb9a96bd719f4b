"""The words of the language that a training loop speaks: what happens to gradients, where, and to whose.

Both sources of events, the source code and a running script, use these types; the machine judges them.
"""

from __future__ import annotations

import enum
from collections.abc import Container
from typing import TYPE_CHECKING

from gradlint.records import dataclass, field

if TYPE_CHECKING:
    from gradlint.knowledge.rows import Row


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the code: a file, and the key of a node in it, under which its position is found later."""

    node: int
    text: str
    path: str = ""

    def __hash__(self) -> int:
        return self.node

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Site) and (other.node, other.path) == (self.node, self.path)


@dataclass(frozen=True, slots=True)
class Params:
    """A set of parameters, as far as it is known: the ids of the models (or tensors) they belong to.

    `known` is False when the owners could not be found out: such a set may meet any other.
    """

    owners: frozenset[str] = frozenset()
    known: bool = False

    def may_meet(self, other: Params) -> bool:
        if not self.known or not other.known:
            return True
        # `model` meets `model.encoder`: one is a part of the other
        return any(a == b or a.startswith(f"{b}.") or b.startswith(f"{a}.") for a in self.owners for b in other.owners)

    def union(self, other: Params) -> Params:
        return Params(self.owners | other.owners, self.known and other.known)


ANY = Params()


@dataclass(frozen=True, slots=True)
class Turn:
    """One loop that an event happened in: which loop, and in which turn of it."""

    loop: int
    turn: int
    #: text of N when the loop goes over the micro-batches of one window
    window: str = ""
    #: how often it goes round, in the user's words and as a number, where a `range` says so
    count: str = ""
    size: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Framework:
    """Who else takes part in an update, beside the user's code: what rules may ask of it, and its rows.

    Rules ask traits, never names. What a trait says holds for the framework's own objects, or for what it was handed.
    """

    #: in the words of a message: "Accelerate divides it again"
    name: str
    #: the roots of its imports
    packages: tuple[str, ...] = ()
    #: what names of its things have in them, in small letters
    stem: str = ""
    #: its step leaves no gradients behind, or nobody sees whether it does
    clears: bool = False
    #: its step clips, by a configuration of its own
    clips: bool = False
    #: it weighs the losses of a window itself, always; where it depends on what it is given, its rows say so
    divides: bool = False
    #: its objects do nothing amid its window: a step that is taken closes one
    windows: bool = False
    #: its step is called on every micro-batch, and waits for the end of the window by itself
    waits: bool = False
    #: it decides which backward synchronises gradients
    syncs: bool = False
    #: its step unscales, whoever scaled
    unscales: bool = False
    #: it takes part in autocasting: where its backward stands is its business
    casts: bool = False
    #: it calls functions of the file for each batch, and clears nothing in between
    drives: bool = False
    #: it logs the norms of gradients, or nobody sees whether it does
    logs_norms: bool = False
    #: imports that say that a file trains with it
    trains: tuple[str, ...] = ()
    rows: tuple[Row, ...] = field(default=(), repr=False)


#: nobody else takes part
PLAIN = Framework("plain PyTorch")
#: an object of the project that wraps the update: `trainer.backward(loss)`, `optimize(opt)`; what it does is not seen
HELPER = Framework("a helper", clears=True, clips=True, syncs=True, unscales=True, casts=True, logs_norms=True)


class Role(enum.Enum):
    """The parts that things play on a path, as far as they can be guessed wrongly."""

    OPTIMIZER = "an optimizer"
    SCALER = "a gradient scaler"
    MODEL = "the model that is trained"
    FRAMEWORK = "a framework"
    #: a flag that says that a window is full
    WINDOW = "the end of a window"
    #: a function that is not seen: what it does is what its name says
    CALL = "a call"


@dataclass(frozen=True, slots=True)
class Guess:
    """What only a name says. `clause` stands behind an "if": "`opt` is an optimizer"."""

    role: Role
    key: str
    clause: str

    @property
    def of_code(self) -> bool:
        """It is about code that is not seen, not about a thing that would be misnamed."""
        return self.role in (Role.CALL, Role.WINDOW)


@dataclass(frozen=True, slots=True)
class Doubt:
    """An unknown call that has a model or its gradients in its hands, before the event with this number."""

    index: int
    text: str
    params: Params
    #: its name says that it may clear; such a one matters wherever it stands
    clears: bool


#: behind every event
NEVER = 1 << 60


@dataclass(frozen=True, slots=True)
class OptimizerRef:
    """An optimizer as the machine knows it."""

    id: str
    text: str
    params: Params = ANY
    kind: str = ""
    framework: Framework = PLAIN
    #: made inside the analysed code, so that its gradients are known to be empty at first
    born: bool = False
    #: its first and last event: a name that is bound anew stands for another optimizer
    since: int = 0
    until: int = NEVER
    #: None where it was seen to be one
    guess: Guess | None = None
    #: text of what its learning rate is divided by
    rate_over: str = ""


@dataclass(frozen=True, slots=True)
class ScalerRef:
    """A gradient scaler; `enabled` is None when it depends on something unknown."""

    id: str
    text: str
    enabled: bool | None = None
    guess: Guess | None = None
    #: made inside the analysed code
    born: bool = False


class Norm(enum.Enum):
    """How a loss was normalised before its backward."""

    RAW = "raw"
    DIVIDED = "divided"
    DIVIDED_BY_COUNTER = "divided by the running counter"
    WEIGHTED = "weighted"
    SUMMED = "summed"
    UNKNOWN = "unknown"


class Wrap(enum.Enum):
    """How a model is distributed."""

    NONE = "none"
    DDP = "DistributedDataParallel"
    FSDP = "FullyShardedDataParallel"
    FSDP2 = "fully_shard"


class Sync(enum.Enum):
    """Whether a pass synchronises gradients between ranks; MANAGED when the code decides it in a way not followed."""

    ON = "on"
    OFF = "off"
    MANAGED = "managed"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at a place, in a turn of some loops. Subclasses say what."""

    site: Site
    frames: tuple[Turn, ...] = ()
    index: int = -1
    #: the calls of the project's own functions, from the outside in, that led here
    via: tuple[Site, ...] = ()
    #: what had to be guessed for it; what takes part in it (optimizer, scaler) has guesses of its own
    guess: Guess | None = None
    #: the condition that it stands behind, if that may have another answer in each turn and was not understood
    asked: Site | None = None

    @property
    def text(self) -> str:
        return self.site.text

    @property
    def places(self) -> tuple[Site, ...]:
        """The calls that led here, from the outside in, and the place itself."""
        return (*self.via, self.site)

    def beside(self, path: str | None) -> Site:
        """Its place; seen from another file that led here, the innermost call that stands in that file."""
        if path is None or path == self.site.path:
            return self.site
        return next((site for site in reversed(self.via) if site.path == path), self.site)

    def same_turn(self, other: Event) -> bool:
        """Both happened in the same turn of every loop that both are in."""
        turns = {f.loop: f.turn for f in self.frames}
        return all(turns.get(f.loop, f.turn) == f.turn for f in other.frames)

    def anew(self, other: Event, loops: Container[int]) -> bool:
        """One of these loops has begun another turn between the two."""
        turns = {f.loop: f.turn for f in self.frames if f.loop in loops}
        return any(turns.get(f.loop, f.turn) != f.turn for f in other.frames)

    def asked_apart(self, other: Event) -> bool:
        """It happens in some turns only, which may be others than those of the other one."""
        return self.asked is not None and self.asked != other.asked

    def shares_loop(self, other: Event) -> bool:
        """They are in a common loop (or both in none)."""
        loops = {f.loop for f in self.frames}
        return any(f.loop in loops for f in other.frames) or (not self.frames and not other.frames)


@dataclass(frozen=True, slots=True)
class Zero(Event):
    """Gradients are cleared (zero_grad, `.grad = None`, `.grad.zero_()`)."""

    params: Params = ANY
    #: set when an optimizer cleared its own
    optimizer: str | None = None
    #: a batch that went wrong (NaN, a spike) is thrown away on purpose
    aborts: bool = False

    @property
    def in_place(self) -> bool:
        """It writes zeros into tensors, which others may share; `zero_grad()` lets go of them since torch 2.0."""
        return any(words in self.text for words in ("set_to_none=False", "zero_(", "zeros_like"))


@dataclass(frozen=True, slots=True)
class Backward(Event):
    """Gradients are made and added to what is there."""

    params: Params = ANY
    scaler: ScalerRef | None = None
    norm: Norm = Norm.UNKNOWN
    loss: str = "loss"
    #: text of the divisor when norm is DIVIDED
    divisor: str = ""
    divisor_value: int | None = None
    #: the backward stands inside an active autocast region (its site)
    autocast: Site | None = None
    #: distributed model whose gradients this backward makes, if one is known
    model: str | None = None
    wrap: Wrap = Wrap.NONE
    sync: Sync = Sync.ON
    forward_sync: Sync = Sync.ON
    #: the no_sync context that is active in the backward / was active in the forward
    no_sync: Site | None = None
    forward: Site | None = None
    framework: Framework = PLAIN
    #: the framework divides the loss by its own number of micro-batches
    managed_division: bool = False
    #: that number: in the words that the framework was given, and its value
    managed_by: str = ""
    managed_size: int | None = None
    #: the framework multiplies the loss by a scale, which is in the gradients until it clips or steps
    managed_scale: bool = False
    #: all that the loss was divided by, products included, where every divisor is a known number; else nothing
    divisors: frozenset[float] = frozenset()
    #: numbers that were handed to what made the loss: it may have divided by one of them
    handed: frozenset[float] = frozenset()
    #: what made the loss, by its full name, if that stands in a file that is not seen: it may be a sum
    unseen: str = ""

    @property
    def scaled(self) -> bool:
        """Its gradients are multiplied by the scale of a scaler that is at work, as far as is known."""
        return self.scaler is not None and self.scaler.enabled is not False

    def same_loss(self, other: Backward) -> bool:
        """The same backward again, or another one of the same loss (in the other arm of a condition)."""
        return self.site == other.site or (self.loss == other.loss and self.frames != other.frames)


@dataclass(frozen=True, slots=True)
class Unscale(Event):
    """`scaler.unscale_(optimizer)`."""

    scaler: ScalerRef | None = None
    optimizer: str | None = None


class EditKind(enum.Enum):
    """What an edit does to the gradients."""

    DIVIDE = "divide"
    SCALE = "scale"
    NOISE = "noise"
    REDUCE = "all-reduce"
    CLAMP = "clamp"
    #: another gradient is put in the place of what was there
    NEW = "new"
    OTHER = "other"
    #: a helper from elsewhere is handed the number of micro-batches together with the model
    PERHAPS = "perhaps"


@dataclass(frozen=True, slots=True)
class Edit(Event):
    """The code writes into `.grad`."""

    params: Params = ANY
    kind: EditKind = EditKind.OTHER
    by: str = ""
    #: the model is wrapped by DDP, which has reduced these gradients already
    wrap: Wrap = Wrap.NONE
    #: what is written was not read from `.grad` just now: there is a gradient behind it even if there was none before
    fresh: bool = False
    #: the number that it comes to dividing by, if it is known
    number: float | None = None
    #: `by` as it is written here
    words: str = ""
    #: whose gradients they were, if they are another network's (it may be if the kind is not NEW), and the loops that
    #: make it anew at each turn
    source: Params | None = None
    made_in: frozenset[int] = frozenset()
    #: what they are divided by is the scale of a gradient scaler
    unscales: bool = False


@dataclass(frozen=True, slots=True)
class Read(Event):
    """The code looks at gradients (norms, logging)."""

    params: Params = ANY
    #: it only asks whether they are finite, which neither a scale nor a limit changes
    finite: bool = False


@dataclass(frozen=True, slots=True)
class Save(Event):
    """Gradients are put aside (a list of copies, a running sum): clearing them does not lose them any more."""

    params: Params = ANY


class ClipKind(enum.Enum):
    """By norm, or by value."""

    NORM = "norm"
    VALUE = "value"


class ClipApi(enum.Enum):
    """Whose clip function it is; only some need unscaled gradients, only some work on shards."""

    TORCH = "torch"
    MODEL = "model"
    MANAGED = "managed"
    #: an optimizer's, on the copies of the gradients that it steps with
    MASTER = "master"
    CUSTOM = "custom"
    #: none: gradients are multiplied by a factor that was made of their norm
    OWN = "own"


@dataclass(frozen=True, slots=True)
class Clip(Event):
    """Gradients are clipped."""

    params: Params = ANY
    kind: ClipKind = ClipKind.NORM
    api: ClipApi = ClipApi.TORCH
    threshold: float | None = None
    #: the site that used up the generator this clip was given
    exhausted_by: Site | None = None
    wrap: Wrap = Wrap.NONE
    #: who runs the backward behind it: the clip stands in a function that a framework calls for the loss
    before: Framework = PLAIN
    #: text of the clipped model or parameters
    target: str = ""
    #: text of the limit, as it is called where it comes from
    limit: str = ""
    framework: Framework = PLAIN
    #: the limit is a parameter of the function round it: the caller has chosen it
    handed: bool = False
    #: it is what that parameter is if the caller says nothing
    by_default: bool = False
    #: the limit is multiplied by the scale, as scaled gradients are
    at_scale: bool = False


@dataclass(frozen=True, slots=True)
class Step(Event):
    """An optimizer uses its gradients."""

    optimizer: str = ""
    scaler: ScalerRef | None = None
    framework: Framework = PLAIN
    #: the counter behind the condition round this step is known exactly (its start too)
    exact: bool = True
    #: text of the accumulation boundary round this step, if one was understood, and the `if` that asks for it
    boundary: str = ""
    guard: Site | None = None
    #: text and value of N
    window: str = ""
    #: the window is a modulo of a counter over a loader (not an inner loop)
    modulo: bool = False
    size: int | None = None
    #: the file in which the micro-batches of the window are counted
    counted_in: str = ""


@dataclass(frozen=True, slots=True)
class Update(Event):
    """`scaler.update()`."""

    scaler: ScalerRef | None = None


@dataclass(frozen=True, slots=True)
class Schedule(Event):
    """A learning-rate scheduler moves on."""

    optimizer: str | None = None
    #: a torch.optim.lr_scheduler (or one made for it); custom ones have other rules
    torch: bool = True
    framework: Framework = PLAIN
    #: its length is a number of micro-batches, not of updates: it wants a step for each
    per_batch: bool = False


@dataclass(frozen=True, slots=True)
class Opaque(Event):
    """A call that could do anything to these optimizers' gradients: what was known is forgotten."""

    optimizers: frozenset[str] | None = None
    #: it may have a scaler in its hands, too
    scales: bool = True


@dataclass(frozen=True, slots=True)
class Mark(Event):
    """A loop begins a turn, or is over; not a gradient event."""

    loop: int = -1
    over: bool = False
    #: the loop runs over a finite loader
    loader: bool = False


#: the N of every window whose size is unknown
WINDOW = 3

#: what may come between a step and the clearing behind it (a clip there is wrong, and has a rule of its own)
BEHIND_STEP: tuple[type[Event], ...] = (Update, Schedule, Clip, Read, Step, Zero)
