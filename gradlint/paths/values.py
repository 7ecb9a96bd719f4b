"""The abstract values of the interpreter: as much of Python's objects as gradients care about."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from gradlint.events import ANY, PLAIN, Framework, Guess, Norm, OptimizerRef, Params, ScalerRef, Site, Sync, Wrap
from gradlint.knowledge.rows import Switch
from gradlint.paths.groups import Parts
from gradlint.python import constants, values
from gradlint.python.constants import as_float
from gradlint.python.values import Bound as Bound
from gradlint.python.values import Class as Class
from gradlint.python.values import Collection as Collection
from gradlint.python.values import Constant as Constant
from gradlint.python.values import External as External
from gradlint.python.values import Function as Function
from gradlint.python.values import Kind as Kind
from gradlint.python.values import Partial as Partial
from gradlint.python.values import Rest as Rest
from gradlint.python.values import Super as Super
from gradlint.python.values import Turns as Turns
from gradlint.python.values import Value as Value
from gradlint.records import dataclass, field, replace

if TYPE_CHECKING:
    from gradlint.python import calls
    from gradlint.python import syntax as s
    from gradlint.python.frame import Frame
    from gradlint.python.scope import Scope

#: a counter is never compared with a number beyond this
FAR = 20


#: what is "called" to give one of several values that are kept
UNPACKED = "unpacked"


@dataclass(slots=True, eq=False)
class Named(Value):
    """`key` is a readable identity, by which unknown things are recognised when met again."""

    key: str = ""


@dataclass(slots=True, eq=False)
class Unknown(Named):
    """A value of which only the name is known. `called` when it is the result of a call."""

    called: str = ""
    #: where it has that name, if it is one that code gives
    scope: Scope | None = None
    #: the owners of parameters that went into it
    params: Params = Params(known=True)
    #: the parameters whose gradients went into it, as they were
    grads: Params | None = None
    #: the optimizer that it was made from, if it is an object of an unknown class
    wraps: Optimizer | None = None
    #: what was handed to the call that made it: the N of a window, or these numbers
    counts: bool = False
    handed: frozenset[float] = frozenset()
    #: what it was divided by last
    over: str = ""
    #: models, optimizers, … that the call was handed and that it may give back as they are
    kept: tuple[Value, ...] = ()
    #: `self.step - 1`: the number it would be if the counter went with the turns of the loop
    counted: int | None = None
    #: the scale of a gradient scaler is in it
    of_scale: bool = False
    #: the size of gradients is in it
    of_norm: bool = False
    #: it goes over micro-batches, or over windows of them
    parts: Parts = Parts.UNKNOWN


@dataclass(slots=True, eq=False)
class Known(Constant):
    """A constant of which more is known: what it is called, or how it was computed."""

    key: str = ""
    #: False when it grew from an unknown start
    exact: bool = True
    #: it changes from turn to turn
    counter: bool = False
    #: text of N when it says whether a window of N micro-batches is full
    window: str = ""
    modulo: bool = False
    #: windows are run with few micro-batches: `value` is not what the file says, `real` is, if it says anything
    made_up: bool = False
    real: float | None = None
    #: see Unknown
    over: str = ""


@dataclass(slots=True, eq=False)
class Instance(values.Instance):
    """An object of the project; `given` is what it was made with where its constructor was not run."""

    ready: bool = True
    key: str = ""
    #: it is an nn.Module, so calling it is a forward
    module: bool = False
    wrap: Wrap = Wrap.NONE


@dataclass(slots=True, eq=False)
class Model(Named):
    """A module made elsewhere, or a wrapped one. `owner` is the id of its parameters."""

    owner: str = ""
    wrap: Wrap = Wrap.NONE
    inner: Value | None = None


@dataclass(slots=True, eq=False)
class Optimizer(Named):
    ref: OptimizerRef = field(default_factory=lambda: OptimizerRef("", ""))


@dataclass(slots=True, eq=False)
class Scheduler(Named):
    optimizer: str | None = None
    torch: bool = True
    framework: Framework = PLAIN
    #: see Schedule
    per_batch: bool = False


@dataclass(slots=True, eq=False)
class Scaler(Named):
    ref: ScalerRef = field(default_factory=lambda: ScalerRef("", ""))


@dataclass(slots=True, eq=False)
class ParamsValue(Named):
    """Parameters: a list of them, or a generator that can be used up."""

    params: Params = ANY
    generator: bool = False
    used_by: Site | None = None
    #: iterating gives (name, parameter)
    named: bool = False
    wrap: Wrap = Wrap.NONE
    #: a part only (some were filtered out)
    partial: bool = False


@dataclass(slots=True, eq=False)
class Parameter(Named):
    """One of some parameters, as a loop over them sees it."""

    params: Params = ANY
    wrap: Wrap = Wrap.NONE
    partial: bool = False
    #: a copy, which has gradients of its own
    twin: bool = False


@dataclass(slots=True, eq=False)
class Grad(Named):
    """The gradient of some parameters; `op` and `by` when it is the result of arithmetic on one."""

    params: Params = ANY
    wrap: Wrap = Wrap.NONE
    partial: bool = False
    op: str = ""
    by: Value | None = None
    #: a copy: what is done to it is not done to `.grad`
    copy: bool = False


@dataclass(slots=True, eq=False)
class Tensor(Named):
    """A tensor that was computed: which parameters it depends on and how it was normalised."""

    params: Params = Params(known=True)
    norm: Norm = Norm.UNKNOWN
    divisor: str = ""
    divisor_value: int | None = None
    scaler: ScalerRef | None = None
    model: str | None = None
    wrap: Wrap = Wrap.NONE
    forward_sync: Sync = Sync.ON
    forward: Site | None = None
    framework: Framework = PLAIN
    #: what it was multiplied with, if that is all that was done to it
    weight: str = ""
    #: see Backward
    divisors: frozenset[float] = frozenset()
    handed: frozenset[float] = frozenset()
    unseen: str = ""
    #: how many losses were added up to make it
    terms: int = 1

    def but(self, **changes: object) -> Tensor:
        return replace(self, **changes)  # type: ignore[arg-type]  # the fields are named at each call


@dataclass(slots=True, eq=False)
class Context(Named):
    """A context manager that matters; several, if its value is a collection of them."""

    kind: Switch = Switch.OTHER
    site: Site | None = None
    model: str | None = None
    sync: Sync = Sync.ON
    enabled: bool | None = True
    value: Value | None = None
    #: what is done when it is left, and where: the rest of a generator of this file, behind its yield
    leaving: tuple[list[s.Stmt], Frame] | None = None


@dataclass(slots=True, eq=False)
class Never(Named):
    """What a call gives that does not come back: an exit of the program."""


@dataclass(slots=True, eq=False)
class Counted(Named):
    """Something iterable: what a turn gives, and how often (None: as often as loops go here)."""

    start: int = 0
    exact: bool = True
    turns: int | None = None
    step: int = 1
    inner: Value | None = None
    enumerate: bool = False
    #: text of the bound, when it is the N of an inner loop over micro-batches
    window: str = ""
    loader: bool = False
    #: the number of turns that the file says
    size: int | None = None


@dataclass(slots=True, eq=False)
class Symbol(Named):
    """A condition that could not be computed yet: an operator and its operands."""

    op: str = ""
    operands: list[Value] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Managing(Named):
    """An object of a framework, which acts in the user's name: Accelerate's Accelerator, DeepSpeed's engine."""

    framework: Framework = PLAIN
    #: N that the framework was given (text), and whether it is known to divide by it
    window: str = ""
    divides: bool = False
    accumulates: bool = True
    model: Value | None = None
    guess: Guess | None = None
    #: N as a number
    size: int | None = None
    #: in what it autocasts, in words ("fp16", or those of an expression); "" if it does not, or if nobody knows
    precision: str = ""


#: what a call is given
Arguments: TypeAlias = "calls.Arguments[Value]"


def row(*values: Value) -> Value:
    """Several values, as a turn of a loop gets them."""
    return Collection([*values], {}, Kind.TUPLE)


#: what a call gives that gives nothing back
NONE = Known(None)


def known(value: Constant) -> Known:
    """What a path knows of a constant: a plain one is what the file says."""
    return value if isinstance(value, Known) else Known(value.value, value.key)


def number_of(value: Value | None) -> float | None:
    """The number that the file says this is, if it is always the same."""
    if not isinstance(value, Constant) or (number := as_float(value.value)) is None:
        return None
    if not isinstance(value, Known):
        return number
    if value.made_up:
        return value.real
    return None if value.counter or not value.exact else number


def whole_number(value: Value | None) -> int | None:
    number = number_of(value)
    return int(number) if number is not None and number.is_integer() else None


def is_length(x: Known) -> bool:
    """How many there are of something that nobody knows; loops go over a few of them."""
    return x.made_up and not (x.exact or x.counter or x.window)


def unlike(a: Known, b: Known) -> bool:
    """`len(memory) < 128`, `len(x) != 32`: the length is not what is run here; that it is above 1 is."""
    for length, limit in ((a, b), (b, a)):
        if is_length(length) and limit.exact and not (limit.counter or limit.made_up):
            return isinstance(limit.value, int | float) and abs(limit.value) > 1
    return False


def far_apart(a: Known, b: Known) -> bool:
    """`step < 10_000`: the few turns that are run here would never get there."""
    for counter, limit in ((a, b), (b, a)):
        if counter.counter and not limit.counter and isinstance(limit.value, int | float) and abs(limit.value) > FAR:
            return True
    return False


def real(op: str, a: Known, b: Known) -> float | None:
    """What comes out with the numbers that the file says."""
    left, right = number_of(a), number_of(b)
    if not (a.made_up or b.made_up) or left is None or right is None:
        return None
    return as_float(constants.binary(op, left, right))


def knownness(value: Value) -> int:
    """For sorting: what is known comes first."""
    return 0 if isinstance(value, Constant) else 1
