"""What is known of a number on its way to the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.records import dataclass, field, replace
from gradlint.subjects import Low, Prob

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gradlint.facts.numerics.operations import Operation
    from gradlint.python import syntax as s


@dataclass(slots=True, eq=False)
class Value:
    """Anything that an expression gives."""


@dataclass(slots=True, eq=False)
class Fact(Value):
    """A number or a tensor."""

    #: False: no gradient goes through it (constants, data, detached); None: not known
    grad: bool | None = None
    low: Low = Low.UNKNOWN
    #: it cannot become large, so exp() of it is safe
    capped: bool = False
    prob: Prob | None = None
    #: the call that made the probability, and the function that it stands in
    made: s.Call | None = None
    home: s.Def | None = None
    #: it is still just what that call gave
    pure: bool = False
    #: x, if this is x squared
    square: s.Expr | None = None
    #: two tensors were subtracted, so that it is zero wherever they agree
    difference: bool = False
    #: the layer that made it, by its name
    layer: str = ""
    #: it counts as bounded only because something was subtracted
    shifted: bool = False
    #: the largest or smallest of some numbers: what is left when it is subtracted has a limit
    extreme: bool = False
    #: kept below 1, by a clamp or as a probability times a number below 1: what is left to 1 is not zero
    shrunk: bool = False
    #: why it can be zero, in a word
    zero: str = ""
    #: the exp() calls that this is a sum of; `ratio` if it is a quotient of such
    exps: tuple[Operation, ...] = ()
    ratio: bool = False
    #: what a model gives, with nothing done to it
    raw: bool = False
    number: float | None = None
    #: the names that a comparison asked about: `p[p > 0]` is a guard
    compared: frozenset[str] = frozenset()
    #: a small number that keeps something away from zero
    eps: bool = False
    #: delicate operations whose gradient flows through this value
    ops: frozenset[Operation] = frozenset()

    def but(self, **changes: object) -> Fact:
        return replace(self, **changes)  # type: ignore[arg-type]  # the fields are named at each call

    @property
    def positive(self) -> bool:
        return self.number is not None and self.number > 0


UNKNOWN = Fact()
DATA = Fact(grad=False)


@dataclass(slots=True, eq=False)
class Items(Value):
    """A tuple or list with its entries, or a dict or record by key."""

    items: list[Value] = field(default_factory=list)
    entries: dict[str, Value] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Ref(Value):
    """Something imported; the full dotted name."""

    dotted: str = ""


@dataclass(slots=True, eq=False)
class Layer(Value):
    """A module of torch.nn; `name` is its class."""

    name: str = ""
    call: s.Call | None = None


@dataclass(slots=True, eq=False)
class Chain(Value):
    """nn.Sequential."""

    layers: list[Value] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Object(Value):
    """An instance of a class of this file."""

    cls: s.Class | None = None
    #: arguments it was made with, by name of the parameter
    made_with: dict[str, Value] = field(default_factory=dict)
    attributes: dict[str, Value] = field(default_factory=dict)
    ready: bool = False


@dataclass(slots=True, eq=False)
class Routine(Value):
    """A function of this file, or a method with the object that it belongs to."""

    node: s.Def | s.Lambda | None = None
    owner: Object | None = None
    env: dict[str, Value] | None = None


@dataclass(slots=True, eq=False)
class ClassRef(Value):
    node: s.Class | None = None


@dataclass(slots=True, eq=False)
class Model(Value):
    """A network from elsewhere: calling it gives raw predictions, or what a head that was put on it makes of them."""

    head: Value | None = None


def grad_of(facts: Iterable[Fact]) -> bool | None:
    found: bool | None = False
    for fact in facts:
        if fact.grad:
            return True
        if fact.grad is None:
            found = None
    return found


def combine(facts: Iterable[Fact]) -> Fact:
    """A result of which only that it is made of these is known."""
    known = list(facts)
    layer = known[0].layer if len(known) == 1 else ""
    return Fact(grad=grad_of(known), ops=frozenset().union(*(f.ops for f in known)), layer=layer)


def as_fact(value: Value) -> Fact:
    """A value where a number is asked for."""
    match value:
        case Fact():
            return value
        case Items():
            return combine(as_fact(item) for item in (*value.items, *value.entries.values()))
        case _:
            return UNKNOWN


def join_low(one: Low, other: Low) -> Low:
    if one is other:
        return one
    return Low.GUARDED if Low.GUARDED in (one, other) or Low.POSITIVE in (one, other) else Low.UNKNOWN


def join(one: Value, other: Value) -> Value:
    """What is known when either may be the case."""
    if one is other:
        return one
    if isinstance(one, Items) and isinstance(other, Items) and len(one.items) == len(other.items):
        items = [join(a, b) for a, b in zip(one.items, other.items, strict=True)]
        entries = {k: join(one.entries.get(k, v), other.entries.get(k, v))
                   for k, v in (one.entries | other.entries).items()}  # fmt: skip
        return Items(items, entries)
    if not isinstance(one, Fact) or not isinstance(other, Fact):
        return UNKNOWN.but(ops=as_fact(one).ops | as_fact(other).ops, low=Low.GUARDED)
    same = one.made is other.made
    return Fact(
        grad=grad_of((one, other)), low=join_low(one.low, other.low), capped=one.capped or other.capped,
        prob=one.prob if one.prob is other.prob else None, made=one.made if same else None,
        home=one.home if same else None, pure=same and one.pure and other.pure,
        square=one.square if one.square is other.square else None, zero=one.zero if one.zero == other.zero else "",
        exps=one.exps if one.exps == other.exps else (), ratio=one.ratio and other.ratio,
        layer=one.layer if one.layer == other.layer else "",
        raw=one.raw and other.raw, difference=one.difference and other.difference,
        shrunk=one.shrunk and other.shrunk, extreme=one.extreme and other.extreme, eps=one.eps and other.eps,
        number=one.number if one.number == other.number else None, ops=one.ops | other.ops,
    )  # fmt: skip
