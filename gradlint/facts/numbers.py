"""What is known of a number on its way to the loss, and what operators and tensor functions make of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.knowledge import tensor_api as api
from gradlint.python import constants
from gradlint.python import syntax as s
from gradlint.python.values import Collection, Constant, Kind, Rest, Value
from gradlint.records import dataclass, replace
from gradlint.subjects import Low, Prob

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gradlint.facts.operations import Operation

#: up to this a constant that is added is a guard, not a term
_SMALL = 0.05


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

    def signature(self) -> object:
        return tuple([getattr(self, name) for name in _FIELDS])

    @property
    def positive(self) -> bool:
        return self.number is not None and self.number > 0


_FIELDS = tuple(Fact.__annotations__)

UNKNOWN = Fact()
DATA = Fact(grad=False)


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
        case Constant(bool()):
            return DATA
        case Constant(int() | float() as known):
            return number(known)
        case Constant():
            return DATA
        case Rest():
            return as_fact(value.value)
        case Collection(items=[Rest() as alike], entries={}):
            return as_fact(alike)
        case Collection() if value.kind is not Kind.ROW:
            return combine(map(as_fact, value.parts))
        case _:
            return UNKNOWN


def number(value: float) -> Fact:
    return Fact(grad=False, low=Low.POSITIVE if value > 0 else Low.UNKNOWN, capped=True, number=value)


def join_low(one: Low, other: Low) -> Low:
    if one is other:
        return one
    return Low.GUARDED if Low.GUARDED in (one, other) or Low.POSITIVE in (one, other) else Low.UNKNOWN


def join(one: Value, other: Value) -> Value:
    """What is known when either may be the case."""
    if one is other:
        return one
    if isinstance(one, Collection) and isinstance(other, Collection) and len(one.items) == len(other.items):
        items = [join(a, b) for a, b in zip(one.items, other.items, strict=True)]
        entries = {k: join(one.entries.get(k, v), other.entries.get(k, v))
                   for k, v in (one.entries | other.entries).items()}  # fmt: skip
        return Collection(items, entries, one.kind)
    if isinstance(one, Rest) and isinstance(other, Rest):
        return Rest(join(one.value, other.value))
    if isinstance(one, Constant):
        one = other if one == other else as_fact(one)
    if isinstance(other, Constant):
        other = as_fact(other)
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


# -- operators


def is_guard(fact: Fact) -> bool:
    return fact.eps or (fact.number is not None and 0 < fact.number <= _SMALL)


def binary(op: str, left: Fact, right: Fact, same_text: bool, operand: s.Expr) -> Fact:
    """`left op right`; `operand` is the left one, `same_text` if both read the same."""
    if left.number is not None and right.number is not None:
        value = constants.binary(op, left.number, right.number)
        return number(value) if isinstance(value, int | float) else DATA
    base = combine((left, right))
    match op:
        case "+":
            return _sum(base, left, right)
        case "-":
            return _difference(base, left, right)
        case "*":
            if same_text:
                return base.but(low=Low.ZERO, square=operand, zero=_squared(left))
            return _product(base, left, right)
        case "/":
            return _quotient(base, left, right)
        case "**":
            return power(left, right, operand)
        case "@":
            return matrix_product(left, right)
        case "&" | "|":
            return base.but(compared=left.compared | right.compared)
        case _:
            return base


def _sum(base: Fact, left: Fact, right: Fact) -> Fact:
    if is_guard(right) or is_guard(left):
        kept = left if is_guard(right) else right
        return kept.but(low=Low.POSITIVE, square=None, pure=False, eps=False, number=None, raw=False)
    if (left.grad is False) != (right.grad is False) and left.number is None and right.number is None:
        # a constant of the configuration is added: whoever does so has thought about it
        return base.but(low=Low.GUARDED, capped=left.capped and right.capped)
    if _offset(left, right) or _offset(right, left):
        return base.but(low=Low.GUARDED)
    capped = left.capped and right.capped
    exps = left.exps + right.exps
    if exps and not ((left.exps and right.exps) or _plain(left) or _plain(right)):
        exps = ()
    low = Low.UNKNOWN
    if left.low >= Low.ZERO and right.low >= Low.ZERO:
        low = max(left.low, right.low)
    prob = Prob.PIECE if _is_probability(left) and _is_probability(right) else None
    zero = _both(left.zero, right.zero) if low is Low.ZERO else ""
    return base.but(low=low, capped=capped, exps=exps, ratio=left.ratio and right.ratio, prob=prob, zero=zero)


def matrix_product(left: Fact, right: Fact) -> Fact:
    base = combine((left, right)).but(capped=_both_capped(left, right))
    if left.low is Low.ZERO and right.low is Low.ZERO and left.square is not None and right.square is not None:
        return base.but(low=Low.ZERO, zero="a sum of squares")
    return base


def _both_capped(left: Fact, right: Fact) -> bool:
    """Who normalises one side of a product normalises the other, if perhaps elsewhere."""
    if left.capped and right.capped:
        return True
    for one, other in ((left, right), (right, left)):
        if one.capped and one.number is None and one.grad is not False and not other.grad and not other.raw:
            return True
    return False


def _both(one: str, other: str) -> str:
    """What a sum of two such parts is."""
    if one and other:
        return _SUMMED.get(one, one) if one == other else "a sum of squares" if "square" in one + other else one
    return one or other


def _offset(error: Fact, constant: Fact) -> bool:
    """`(pred - target) ** 2 + c ** 2`: c is there to keep the root away from zero."""
    return "difference" in error.zero and constant.zero == "a square" and isinstance(constant.square, s.Name | s.Attr)


def _difference(base: Fact, left: Fact, right: Fact) -> Fact:
    if left.number == 1 and right.shrunk and not _is_probability(right):
        return base.but(low=Low.GUARDED, capped=True)
    if left.number == 1 and _is_probability(right):
        kind = {Prob.SIGMOID: Prob.ONE_MINUS_SIGMOID, Prob.ONE_MINUS_SIGMOID: Prob.SIGMOID}.get(
            right.prob or Prob.PIECE, Prob.PIECE
        )
        if right.low >= Low.GUARDED or right.shrunk:
            return base.but(low=Low.GUARDED, prob=kind, made=right.made, home=right.home)
        return base.but(low=Low.ZERO, prob=kind, made=right.made, home=right.home, pure=right.pure, capped=True)
    if left.low is Low.POSITIVE and left.number is None:
        return base.but(low=Low.GUARDED, capped=True)
    if right.number is not None:
        return base.but(capped=left.capped, raw=False)
    # whoever subtracts inside an exp() has shifted it, or has a ratio in mind
    capped = left.number is None or right.low >= Low.ZERO or right.capped
    limited = (left.capped and right.capped and not left.shifted and not right.shifted) or left.extreme or right.extreme
    return base.but(capped=capped, difference=left.number is None, shifted=capped and not limited)


def _product(base: Fact, left: Fact, right: Fact) -> Fact:
    low = Low.UNKNOWN
    if left.low >= Low.ZERO and right.low >= Low.ZERO:
        low = min(left.low, right.low)
    prob, zero, shrunk = None, "", False
    for one, other in ((left, right), (right, left)):
        if _is_probability(one) and (_is_probability(other) or other.grad is False):
            prob = Prob.PIECE
            shrunk |= other.number is not None and 0 < other.number < 1
            low = one.low if one.low >= Low.GUARDED else max(low, Low.ZERO)
        if low is Low.ZERO and one.zero:
            zero = one.zero
    exps = left.exps or right.exps if _plain(left) or _plain(right) else ()
    negated = (left.number or 0) < 0 or (right.number or 0) < 0
    # `k * (a - b)` is no shift any more
    capped = _both_capped(left, right) and not (left.shifted or right.shifted)
    if negated:
        other = right if (left.number or 0) < 0 else left
        return base.but(capped=other.low >= Low.ZERO or (other.capped and not other.shifted), exps=exps)
    return base.but(
        low=low, prob=prob, zero=zero, shrunk=shrunk, exps=exps, capped=capped, ratio=left.ratio and right.ratio
    )


def _quotient(base: Fact, left: Fact, right: Fact) -> Fact:
    low = Low.UNKNOWN
    if left.low >= Low.ZERO and right.low >= Low.ZERO:
        low = min(left.low, right.low) if right.low is not Low.ZERO else left.low
    prob = Prob.PIECE if _is_probability(left) else None
    if prob and left.low >= Low.GUARDED:
        low = left.low
    ratio = bool(left.exps and right.exps)
    exps = left.exps + right.exps if ratio else left.exps
    zero = left.zero if low is Low.ZERO else ""
    if zero == "a sum of squared differences" and right.grad is False and right.number is None:
        zero = "a mean squared error"  # `((a - b) ** 2).sum() / len(a)`
    return base.but(low=low, prob=prob, exps=exps, ratio=ratio or left.ratio, capped=left.capped or ratio, zero=zero)


def power(left: Fact, right: Fact, operand: s.Expr) -> Fact:
    base = combine((left, right))
    if right.number is not None and right.number > 0 and right.number % 2 == 0:
        return base.but(low=max(left.low, Low.ZERO), square=operand, zero=_squared(left), capped=left.capped)
    if left.positive:
        return base.but(low=Low.POSITIVE)
    if left.low >= Low.ZERO:
        return base.but(low=left.low, prob=Prob.PIECE if _is_probability(left) else None, zero=left.zero)
    return base


def _squared(fact: Fact) -> str:
    return "a squared difference" if fact.difference else "a square"


_SUMMED = {"a square": "a sum of squares", "a squared difference": "a sum of squared differences"}


def negated(fact: Fact) -> Fact:
    if fact.number is not None:
        return Fact(grad=False, capped=True, number=-fact.number)
    capped = (fact.capped and not fact.shifted) or fact.low >= Low.ZERO
    return Fact(fact.grad, capped=capped, raw=fact.raw, difference=fact.difference, ops=fact.ops)


def reduced(name: str, fact: Fact) -> Fact:
    """sum, mean, max and the like over some dimensions."""
    zero = _SUMMED.get(fact.zero, fact.zero)
    if fact.zero == "a squared difference" and name in ("mean", "nanmean"):
        zero = "a mean squared error"
    kept = Fact(fact.grad, fact.low, fact.capped, zero=zero, exps=fact.exps, ratio=fact.ratio, ops=fact.ops)
    if name in _EXTREMES:
        kept = kept.but(extreme=True)
    if name in ("max", "amax") and fact.prob is Prob.SOFTMAX:
        return kept.but(low=Low.POSITIVE, zero="")
    if fact.prob in (Prob.SOFTMAX, Prob.SIGMOID, Prob.ONE_MINUS_SIGMOID, Prob.PIECE):
        # an average over many is hardly ever zero
        averaged = name in ("mean", "nanmean", "average") and fact.low < Low.GUARDED
        return kept.but(prob=Prob.PIECE, low=Low.GUARDED if averaged else fact.low, made=fact.made, home=fact.home)
    return kept.but(prob=fact.prob) if fact.prob is Prob.LOG else kept


def selected(fact: Fact, *, whole_rows: bool) -> Fact:
    """Some of the numbers; `whole_rows` keeps a softmax a softmax."""
    if fact.prob is None:
        return fact.but(pure=False, square=None)
    prob = fact.prob if whole_rows or fact.prob not in (Prob.SOFTMAX,) else Prob.PIECE
    return fact.but(pure=False, square=None, prob=prob)


def clamped(fact: Fact, low: Fact | None, high: Fact | None) -> Fact:
    changes: dict[str, object] = {"pure": False, "raw": False, "square": None}
    if high is not None:
        changes.update(capped=True, shifted=False, shrunk=fact.shrunk or high.number is None or high.number < 1)
    if low is not None:
        if low.number is None or low.number > 0:
            changes["low"] = Low.POSITIVE
        elif low.number == 0:
            changes.update(low=max(fact.low, Low.ZERO), zero=fact.zero or "clamped at 0")
    return fact.but(**changes)


def _is_probability(fact: Fact) -> bool:
    return fact.prob is not None and fact.prob is not Prob.LOG


def _plain(fact: Fact) -> bool:
    """A number, a mask, a weight: no prediction."""
    return fact.number is not None or fact.grad is False


_EXTREMES = frozenset({"max", "amax", "min", "amin"})
#: reductions over dimensions
REDUCTIONS = frozenset(
    {"sum", "mean", "max", "min", "amax", "amin", "nansum", "nanmean", "median", "prod", "cumsum", "average"}
)


def function(name: str, first: Fact, rest: list[Fact], operand: s.Expr) -> Fact | None:
    """The result of a tensor function that is not delicate itself; None if it is not known."""
    if name in api.SAME:
        return first
    if name in api.CUT:
        return DATA
    if name in api.DATA:
        positive = name in api.POSITIVE_DATA or (name in ("tensor", "as_tensor", "full") and first.positive)
        return DATA.but(low=Low.POSITIVE if positive else Low.UNKNOWN, capped=True)
    if name in api.GUARDS:
        merged = combine((first, *rest))
        return merged.but(low=Low.GUARDED, capped=True)
    if name in api.SELECT:
        return _selection(name, first, rest)
    if name in REDUCTIONS:
        if rest and name in ("max", "min") and not isinstance(rest[0].number, int):
            return _extreme(name, first, rest[0])
        return reduced(name, first)
    if name in ("neg", "neg_", "negative"):
        return negated(first)
    merged = combine((first, *rest))
    if name in ("square", "square_"):
        return merged.but(low=max(first.low, Low.ZERO), square=operand, zero=_squared(first), capped=first.capped)
    if name in ("maximum", "minimum", "fmax", "fmin") and rest:
        return _extreme(name, first, rest[0])
    if name in api.NEVER_NEGATIVE:
        zero = "a norm" if name in api.NORMS else "a ReLU" if name.startswith("relu") else "an absolute value"
        if first.low >= Low.GUARDED and name not in api.NORMS:
            return merged.but(low=first.low, capped=first.capped)
        kind = "a variance" if name in ("var", "std") else zero
        return merged.but(low=Low.ZERO, zero=kind, capped=first.capped, layer="")
    if name in api.DISTANCES:
        return merged.but(low=Low.ZERO, zero="a mean squared error")
    if name in api.POSITIVE:
        return merged.but(low=Low.POSITIVE)
    if name in api.CAPPED:
        return merged.but(capped=True)
    if name in api.LOG_PROBS:
        return merged.but(prob=Prob.LOG, capped=True)
    if name in ("matmul", "mm", "bmm") and rest:
        return matrix_product(first, rest[0])
    if name in ("einsum", "inner", "dot"):
        return merged.but(capped=all(f.capped for f in (first, *rest) if f.number is None))
    return None


def _selection(name: str, first: Fact, rest: list[Fact]) -> Fact:
    if name in api.JOINS:
        return first
    kept = selected(first, whole_rows=name in ("index_select", "chunk", "split", "unbind", "narrow"))
    return kept.but(ops=frozenset().union(first.ops, *(f.ops for f in rest)))


def _extreme(name: str, first: Fact, other: Fact) -> Fact:
    merged = combine((first, other)).but(extreme=True)
    if name.endswith(("max", "imum")) and "min" not in name:
        guarded = other.positive or first.positive or is_guard(other) or is_guard(first)
        if guarded:
            return merged.but(low=Low.POSITIVE, capped=first.capped and other.capped)
        return merged.but(low=Low.GUARDED if Low.POSITIVE in (first.low, other.low) else max(first.low, other.low))
    low = min(first.low, other.low)
    return merged.but(low=low, capped=True)
