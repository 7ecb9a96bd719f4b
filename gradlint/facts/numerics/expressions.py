"""Evaluates expressions to what is known of their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradlint.facts.numerics import arithmetic
from gradlint.facts.numerics.facts import (
    DATA,
    UNKNOWN,
    Chain,
    Fact,
    Items,
    Object,
    Ref,
    Routine,
    Value,
    as_fact,
    combine,
    join,
)
from gradlint.facts.numerics.frames import Enough, Frames, by_name
from gradlint.knowledge import tensor_api as api
from gradlint.python import syntax as s
from gradlint.subjects import Kind, Low

if TYPE_CHECKING:
    from collections.abc import Callable


class Expressions(Frames):
    """Operators, names, displays. Calls are in the layer above."""

    def call(self, node: s.Call) -> Value:
        raise NotImplementedError("abstract: see Calls")

    def attribute_of(self, owner: Object, name: str) -> Value | None:
        raise NotImplementedError("abstract: see Modules")

    def ev(self, expr: s.Expr) -> Value:
        self.budget -= 1
        if self.budget < 0:
            raise Enough
        return _EVALUATE[type(expr)](self, expr)

    def fact(self, expr: s.Expr) -> Fact:
        return as_fact(self.ev(expr))

    def _const(self, expr: s.Const) -> Value:
        value = expr.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            return DATA
        return Fact(grad=False, low=Low.POSITIVE if value > 0 else Low.UNKNOWN, capped=True, number=value)

    def _name(self, expr: s.Name) -> Value:
        return self.look_up(expr.id)

    def _attr(self, expr: s.Attr) -> Value:
        if isinstance(expr.base, s.Name | s.Attr) and api.CONFIG.search(_last(expr.base)):
            named = by_name(expr.name)
            return named if isinstance(named, Fact) and named.eps else DATA
        base = self.ev(expr.base)
        match base:
            case Ref():
                return Ref(f"{base.dotted}.{expr.name}")
            case Object():
                found = self.attribute_of(base, expr.name)
                return found if found is not None else by_name(expr.name)
            case Items() if expr.name in base.entries:
                return base.entries[expr.name]
            case Fact():
                if expr.name in ("T", "mT", "real"):
                    return base
                if expr.name in ("data", "shape", "dtype", "device", "grad"):
                    return DATA
                named = by_name(expr.name)
                return named.but(ops=base.ops) if isinstance(named, Fact) else named
            case _:
                return by_name(expr.name)

    def _bin(self, expr: s.Bin) -> Value:
        left, right = self.ev(expr.left), self.ev(expr.right)
        if isinstance(left, Items) and isinstance(right, Items) and expr.op == "+":
            return Items([*left.items, *right.items])
        return self.binary(expr, as_fact(left), as_fact(right))

    def binary(self, expr: s.Bin, left: Fact, right: Fact) -> Fact:
        same = expr.op == "*" and same_text(expr.left, expr.right)
        result = arithmetic.binary(expr.op, left, right, same, expr.left)
        if expr.op == "-" and left.layer and right.layer and left.layer != right.layer and not self._near():
            # what two layers of a model make of their inputs is not equal, down to the last digit
            result = result.but(difference=False, layer=f"{left.layer} - {right.layer}")
        if expr.op == "/" and right.number is None:
            return self._with(result, Kind.DIVIDE, expr, expr.right, right, left)
        if expr.op == "**" and right.number == 0.5:
            return self._with(result, Kind.ROOT, expr, expr.left, left)
        return result

    def _with(
        self, result: Fact, kind: Kind, node: s.Bin, operand: s.Expr, fact: Fact, other: Fact | None = None
    ) -> Fact:  # fmt: skip
        operation = self.operate(kind, node, operand, fact, other=other)
        return result if operation is None else result.but(ops=result.ops | {operation})

    def _unary(self, expr: s.Unary) -> Value:
        value = self.fact(expr.value)
        if expr.op == "-":
            return arithmetic.negated(value)
        return DATA.but(compared=value.compared) if expr.op in ("not", "~") else value

    def _compare(self, expr: s.Compare) -> Value:
        self.ev(expr.left)
        self.ev(expr.right)
        return DATA.but(compared=frozenset(part.id for part in s.walk_expr(expr) if isinstance(part, s.Name)))

    def _bool(self, expr: s.Bool) -> Value:
        values = [self.ev(item) for item in expr.items]
        found = values[0]
        for value in values[1:]:
            found = join(found, value)
        return found

    def _if(self, expr: s.IfExp) -> Value:
        self.ev(expr.test)
        return join(self.ev(expr.then), self.ev(expr.other))

    def _item(self, expr: s.Item) -> Value:
        base = self.ev(expr.base)
        index = expr.index
        key = constant(index)
        if isinstance(base, Items) and isinstance(key, str):
            return base.entries.get(key, UNKNOWN)
        if isinstance(base, Items | Chain) and isinstance(key, int):
            held = base.items if isinstance(base, Items) else base.layers
            if -len(held) <= key < len(held):
                return held[key]
        asked = as_fact(self.ev(index)).compared
        if isinstance(base, Fact):
            if isinstance(expr.base, s.Name) and expr.base.id in asked:
                return base.but(low=max(base.low, Low.GUARDED), pure=False)
            # `probs[mask]` keeps rows whole, `probs[range(n), y]` does not
            parts = index.children if isinstance(index, s.Other) else []
            whole = len(parts) < 2 or any(isinstance(part, s.Other) for part in parts)
            return arithmetic.selected(base, whole_rows=whole)
        return as_fact(base) if isinstance(base, Items) else UNKNOWN

    def _sequence(self, expr: s.Sequence) -> Value:
        items: list[Value] = []
        for item in expr.items:
            value = self.ev(item)
            if isinstance(item, s.Star) and isinstance(value, Items):
                items.extend(value.items)
            else:
                items.append(value)
        return Items(items)

    def _dict(self, expr: s.Dict) -> Value:
        found = Items()
        for key, item in expr.pairs:
            value = self.ev(item)
            if isinstance(key, s.Const) and isinstance(key.value, str):
                found.entries[key.value] = value
                if api.LOSS_NAME.search(key.value):
                    self.reach(value)
            else:
                found.items.append(value)
        return found

    def _lambda(self, expr: s.Lambda) -> Value:
        return Routine(expr, None, self.frame.env)

    def _comprehension(self, expr: s.Comprehension) -> Value:
        kept = dict(self.frame.env)
        iterable = self.ev(expr.iterable)
        self.assign(expr.target, element(iterable))
        value = self.ev(expr.element)
        for condition in expr.conditions:
            self.ev(condition)
        self.frame.env.clear()
        self.frame.env.update(kept)
        return as_fact(value) if isinstance(value, Fact | Items) else Items([value])

    def assign(self, target: s.Expr, value: Value) -> None:
        raise NotImplementedError("abstract: see Statements")

    def _inner(self, expr: s.Star | s.Walrus) -> Value:
        value = self.ev(expr.value)
        if isinstance(expr, s.Walrus):
            self.assign(expr.target, value)
        return value

    def _yield(self, expr: s.Yield) -> Value:
        if expr.value is not None:
            self.ev(expr.value)
        return UNKNOWN

    def _other(self, expr: s.Other) -> Value:
        return combine([self.fact(child) for child in expr.children]).but(grad=None)


def constant(index: s.Expr) -> object:
    """The value of an index that is written out, with its sign."""
    match index:
        case s.Const():
            return index.value
        case s.Unary(op="-", value=s.Const(value=int() as number)):
            return -number
        case _:
            return None


def same_text(one: s.Expr, other: s.Expr | None) -> bool:
    """Both read the same, and what is not rendered (slices, f-strings) plays no part in it."""
    text = s.render(one)
    return text == s.render(other) and "[:" not in text and "…" not in text


def _last(expr: s.Name | s.Attr) -> str:
    return expr.id if isinstance(expr, s.Name) else expr.name


def element(iterable: Value) -> Value:
    """What a loop over this gives."""
    match iterable:
        case Items() if iterable.items:
            found = iterable.items[0]
            for item in iterable.items[1:4]:
                found = join(found, item)
            return found
        case Fact():
            return arithmetic.selected(iterable, whole_rows=True) if iterable.number is None else DATA
        case Chain() if iterable.layers:
            return iterable.layers[0]
        case _:
            return UNKNOWN


_EVALUATE: dict[type[s.Node], Callable[[Expressions, Any], Value]] = {
    s.Name: Expressions._name,
    s.Attr: Expressions._attr,
    s.Call: lambda self, expr: self.call(expr),
    s.Const: Expressions._const,
    s.Bin: Expressions._bin,
    s.Unary: Expressions._unary,
    s.Compare: Expressions._compare,
    s.Bool: Expressions._bool,
    s.IfExp: Expressions._if,
    s.Item: Expressions._item,
    s.Sequence: Expressions._sequence,
    s.Dict: Expressions._dict,
    s.Lambda: Expressions._lambda,
    s.Comprehension: Expressions._comprehension,
    s.Star: Expressions._inner,
    s.Walrus: Expressions._inner,
    s.Yield: Expressions._yield,
    s.Other: Expressions._other,
}
