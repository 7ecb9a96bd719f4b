"""What torch's functions, the methods of tensors, layers and criteria make of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.facts import numbers
from gradlint.facts.numbers import DATA, UNKNOWN, Fact, as_fact, combine, join, join_low
from gradlint.facts.operations import Losses, Operation
from gradlint.knowledge import tensor_api as api
from gradlint.knowledge.rows import Passes
from gradlint.python import syntax as s
from gradlint.python.calls import Arguments
from gradlint.python.values import Collection, Rest, Value
from gradlint.python.values import Kind as Held
from gradlint.records import dataclass
from gradlint.subjects import Kind, Low, Prob

if TYPE_CHECKING:
    from gradlint.events import Framework
    from gradlint.knowledge.rows import Row

CRITERIA = {
    **dict.fromkeys(api.CROSS_ENTROPY, Kind.CROSS_ENTROPY), **dict.fromkeys(api.NLL, Kind.NLL),
    **dict.fromkeys(api.BCE, Kind.BCE),
}  # fmt: skip
_CLAMPS = frozenset({"clamp", "clip", "clamp_", "clip_", "clamp_min", "clamp_min_", "clamp_max", "clamp_max_"})
_OPERATORS = {
    "add": "+", "add_": "+", "sub": "-", "sub_": "-", "mul": "*", "mul_": "*", "multiply": "*", "div": "/", "div_": "/",
    "divide": "/", "true_divide": "/",
}  # fmt: skip


@dataclass(slots=True, eq=False)
class Layer(Value):
    """A module of torch.nn; `name` is its class."""

    name: str
    call: s.Call


class Functions:
    """By their last names; what is delicate among them is told to the losses of the file."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses

    def layer(self, layer: Layer, node: s.Call, given: Arguments[Value]) -> Value:
        name = layer.name
        first = given.get(0, "input", "x")
        fact = as_fact(first) if first is not None else UNKNOWN
        if name in CRITERIA:
            return self._criterion(CRITERIA[name], node, given, layer.call)
        if name in api.SOFTMAXES | api.SIGMOIDS:
            return self._probability(name, fact, layer.call)
        if name in api.SAME_LAYERS:
            return fact
        if name.endswith("Loss"):
            result = combine(facts_of(given))
            self._losses.reach(result)
            known = numbers.function(name, fact, facts_of(given)[1:], node)
            return known if known is not None else result
        made = s.render(node.func)
        if name in api.LINEAR_LAYERS:
            return combine(facts_of(given)).but(grad=True, raw=True, layer=made)
        known = numbers.function(api.ACTIVATIONS.get(name, name), fact, [], node)
        return known if known is not None else combine(facts_of(given)).but(grad=True, layer=made)

    def _criterion(self, kind: Kind, node: s.Call, given: Arguments[Value], made: s.Call | None) -> Fact:
        expr = given.expression(0, "input")
        result = combine(facts_of(given))
        self._losses.reach(result)
        if expr is not None:
            value = given.get(0, "input")
            fact = as_fact(value) if value is not None else UNKNOWN
            operation = self._losses.operate(kind, node, expr, fact, made=made)
            if operation is not None:
                result = result.but(ops=result.ops | {operation})
        return result.but(low=Low.ZERO) if kind is not Kind.NLL else result

    def _probability(self, name: str, fact: Fact, made: s.Call) -> Fact:
        kind = Prob.SIGMOID if name in api.SIGMOIDS else Prob.PIECE if name.startswith("gumbel") else Prob.SOFTMAX
        return Fact(
            grad=fact.grad, low=Low.ZERO, capped=True, prob=kind, made=made, home=self._losses.function, pure=True,
            zero=f"a {kind.value}", ops=fact.ops,
        )  # fmt: skip

    def function(self, name: str, node: s.Call, given: Arguments[Value]) -> Value | None:
        """A function of torch by its last name; a method has its tensor as the first argument."""
        first = _joined(given.get(0, "input", "tensors") or UNKNOWN, name)
        operand = given.expression(0, "input")
        rest = [as_fact(v) for v in given.args[1:]]
        if name == "backward":
            self._losses.reach(combine(facts_of(given)))
            return DATA
        if _is_parameter(name, given):
            return Fact(grad=True)
        if operand is None:
            return DATA if name in api.DATA else None
        if name in api.SOFTMAXES or name in api.SIGMOIDS:
            return self._probability(name, first, node)
        if name in CRITERIA and name[:1].islower():
            return self._criterion(CRITERIA[name], node, given, None)
        delicate = self._delicate(name, node, operand, first, rest)
        if delicate is not None:
            return delicate
        if name in _CLAMPS:
            low = given.get(1, "min") if not name.startswith("clamp_max") else None
            high = given.get(1 if name.startswith("clamp_max") else 2, "max")
            return numbers.clamped(first, as_fact(low) if low else None, as_fact(high) if high else None)
        if name in _OPERATORS and rest:
            return self._operator(_OPERATORS[name], node, operand, first, rest[0], given)
        if name in ("where", "masked_select") and rest:
            return _chosen(name, first, rest, given)
        if name.endswith("_loss") or name.startswith("binary_cross_entropy_with"):
            self._losses.reach(combine(facts_of(given)))
        return numbers.function(name, first, rest, operand)

    def _operator(
        self, op: str, node: s.Call, operand: s.Expr, first: Fact, other: Fact, given: Arguments[Value]
    ) -> Fact:  # fmt: skip
        second = given.expression(1, "other")
        result = numbers.binary(op, first, other, op == "*" and same_text(operand, second), operand)
        if op == "/" and other.number is None and second is not None:
            return marked(result, self._losses.operate(Kind.DIVIDE, node, second, other, other=first))
        return result

    def _delicate(self, name: str, node: s.Call, operand: s.Expr, first: Fact, rest: list[Fact]) -> Fact | None:
        merged = combine((first, *rest))
        if name in api.OF_ONE and (rest or _more_than_its_object(node, operand)):
            return None  # somebody else's `log`
        if name in api.LOGS:
            result = merged.but(prob=Prob.LOG if first.prob else None, capped=first.capped)
            return marked(result, self._losses.operate(Kind.LOG, node, operand, first))
        if name == "log1p":
            return marked(merged, self._losses.operate(Kind.LOG1P, node, operand, first))
        if name in api.ROOTS or (name in ("pow", "pow_") and rest and rest[0].number == 0.5):
            result = merged.but(low=first.low, zero=first.zero)
            return marked(result, self._losses.operate(Kind.ROOT, node, operand, first))
        if name in ("pow", "pow_") and rest:
            return numbers.power(first, rest[0], operand)
        if name in api.EXPS:
            operation = self._losses.operate(Kind.EXP, node, operand, first)
            exps = (operation,) if operation is not None else ()
            return marked(merged.but(low=Low.POSITIVE, exps=exps), operation)
        return None


def _more_than_its_object(node: s.Call, operand: s.Expr) -> bool:
    """A method is called with arguments."""
    method = isinstance(node.func, s.Attr) and node.func.base is operand
    return method and bool(node.args or node.kwargs or node.starred)


def facts_of(given: Arguments[Value]) -> list[Fact]:
    return [as_fact(value) for value in given.every]


def passed_on(found: tuple[Framework, Row | None] | None, given: Arguments[Value]) -> Value | None:
    """`model, optimizer = amp.initialize(model, optimizer)`, `accelerator.prepare(…)`: what a framework gives back."""
    row = found[1] if found is not None else None
    if not isinstance(row, Passes):
        return None
    if row.argument is not None:
        return given.at(row.argument)
    values = given.every if row.first is None else given.args[: row.first]
    return values[0] if len(values) == 1 else Collection(list(values), {}, Held.TUPLE) if values else None


def marked(result: Fact, operation: Operation | None) -> Fact:
    return result.but(ops=result.ops | {operation}) if operation is not None else result


def same_text(one: s.Expr, other: s.Expr | None) -> bool:
    """Both read the same, and what is not rendered (slices, f-strings) plays no part in it."""
    text = s.render(one)
    return text == s.render(other) and "[:" not in text and "…" not in text


def _is_parameter(name: str, given: Arguments[Value]) -> bool:
    """`torch.randn(n, requires_grad=True)`; a number that is written out, to show what autograd does, is none."""
    asked = given.named.get("requires_grad")
    if name not in api.DATA or not isinstance(asked, s.Const) or asked.value is not True:
        return False
    return name not in ("tensor", "as_tensor", "Tensor", "FloatTensor")


def _joined(value: Value, name: str) -> Fact:
    """`torch.cat([a, b])` knows what both are."""
    if name not in api.JOINS or not isinstance(value, Collection) or not value.items:
        return as_fact(value)
    items = [item.value if isinstance(item, Rest) else item for item in value.items]
    found = items[0]
    for item in items[1:]:
        found = join(found, item)
    return as_fact(found).but(capped=all(as_fact(item).capped for item in items))


def _chosen(name: str, first: Fact, rest: list[Fact], given: Arguments[Value]) -> Fact | None:
    """A condition that asks about the very numbers is a guard; one that asks about others only picks."""
    asked = first.compared if name == "where" else rest[0].compared
    chosen = given.exprs[1:3] if name == "where" else given.exprs[:1]
    names = {part.id for expr in chosen for part in s.walk_expr(expr) if isinstance(part, s.Name)}
    if name == "masked_select":
        return numbers.selected(first, whole_rows=False).but(
            low=max(first.low, Low.GUARDED) if asked & names else first.low
        )
    if len(rest) == 2 and all(f.prob is not None and f.prob is not Prob.LOG for f in rest) and not asked & names:
        low = join_low(rest[0].low, rest[1].low)
        return combine(rest).but(low=low, prob=Prob.PIECE, made=rest[0].made, home=rest[0].home, capped=True)
    return numbers.function(name, first, rest, given.exprs[0])
