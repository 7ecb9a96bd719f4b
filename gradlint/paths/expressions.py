"""Evaluates expressions to abstract values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradlint.events import Params, Wrap
from gradlint.knowledge import naming
from gradlint.paths import tensors
from gradlint.paths import values as v
from gradlint.paths.run import owner, params_in
from gradlint.python import syntax as s
from gradlint.python.binding import identifiers
from gradlint.python.evaluate import KINDS
from gradlint.python.usage import Use
from gradlint.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gradlint.paths.interpreter import Interpreter


class Expressions:
    """Operators, displays, iteration."""

    def __init__(self, it: Interpreter) -> None:
        self.it = it
        self.run = it.run

    def ev(self, expr: s.Expr) -> v.Value:
        return _EVALUATE[type(expr)](self, expr)

    def _ev_name(self, expr: s.Name) -> v.Value:
        return self.it.names.look_up(expr.id)

    def _ev_attr(self, expr: s.Attr) -> v.Value:
        return self.it.names.attribute(self.it.ev(expr.base), expr.name, expr)

    def _ev_call(self, expr: s.Call) -> v.Value:
        return self.it.calls.call(expr)

    def _ev_const(self, expr: s.Const) -> v.Value:
        return v.Constant(expr.value)

    def _ev_bin(self, expr: s.Bin) -> v.Value:
        right: v.Value
        left, right = self.it.ev(expr.left), self.it.ev(expr.right)
        result = self.binary(expr.op, left, right, s.render(expr))
        if expr.op == "%" and isinstance(result, v.Known) and result.window:
            self.it.conditions.sized(right)
            result = replace(
                result, window=s.render(expr.right)
            )  # N in the words that stand here, not those of a caller
            self.run.counted_in[result.window] = self.run.frame.program.path
            number = v.whole_number(right)
            if number is not None:
                self.run.sizes[result.window] = number
        return result

    def _ev_lambda(self, expr: s.Lambda) -> v.Value:
        return v.Function(expr, self.it.names.known.seen(self.run.frame), key=s.render(expr))

    def _ev_star(self, expr: s.Star) -> v.Value:
        return self.it.ev(expr.value)

    def _ev_walrus(self, expr: s.Walrus) -> v.Value:
        self.it.names.assign(expr.target, self.it.ev(expr.value))
        return self.it.ev(expr.target)

    def _ev_yield(self, expr: s.Yield) -> v.Value:
        if expr.value is not None:
            self.it.ev(expr.value)
        self.run.yielded = list(self.run.contexts)
        return v.Unknown("yield")

    def _ev_other(self, expr: s.Other) -> v.Value:
        for child in expr.children:
            self.it.ev(child)
        return v.Unknown(expr.label)

    # -- operators

    def binary(self, op: str, left: v.Value, right: v.Value, text: str) -> v.Value:
        result = self._binary(op, left, right, text)
        if isinstance(result, v.Known | v.Unknown) and op in "/*":
            sides = [x.over for x in (left, right) if isinstance(x, v.Known | v.Unknown) and x.over]
            return replace(result, over=right.key if op == "/" else next(iter(sides), ""))
        return result

    def _binary(self, op: str, left: v.Value, right: v.Value, text: str) -> v.Value:
        tensor = tensors.arithmetic(op, left, right, text)
        if tensor is not None:
            return tensor
        if op == "%" and isinstance(left, v.Constant) and isinstance(left.value, str):
            return v.Unknown(text)
        number = self.it.conditions.arithmetic(op, left, right, text)
        if number is not None:
            return number
        if op == "+" and (isinstance(left, v.ParamsValue | v.Collection) or isinstance(right, v.ParamsValue)):
            return self._joined(left, right, text)
        if isinstance(left, v.Grad):
            return v.Grad(left.key, left.params, left.wrap, left.partial, op, right, True)
        if isinstance(right, v.Grad) and op == "*":
            return v.Grad(right.key, right.params, right.wrap, right.partial, op, left, True)
        held = tensors.gradients_in(right) or tensors.gradients_in(left)
        return v.Unknown(text, params=params_in(left).union(params_in(right)), grads=held)

    def _joined(self, left: v.Value, right: v.Value, text: str) -> v.Value:
        if isinstance(left, v.Collection) and isinstance(right, v.Collection):
            return v.Collection([*left.items, *right.items], {}, left.kind)
        params = self.params_of(left).union(self.params_of(right))
        return v.ParamsValue(text, params, wrap=_first_wrap(self.run.wrap_of(left), self.run.wrap_of(right)))

    def _comparison(self, expr: s.Compare) -> v.Value:
        left, right = self.it.ev(expr.left), self.it.ev(expr.right)
        return self.it.conditions.compare(expr.op, left, right, s.render(expr))

    def _boolean(self, expr: s.Bool) -> v.Value:
        items = [self.it.ev(item) for item in expr.items]
        stop = expr.op == "or"
        if all(isinstance(item, v.Constant) for item in items):
            return self._combined(expr, items, stop)
        for item in items:
            if isinstance(item, v.Constant) and bool(item.value) == stop:
                return _like(item, stop, expr)
            if not isinstance(item, v.Constant | v.Symbol | v.Unknown | v.External | v.Tensor) and expr.op == "or":
                return item  # `params or []`, `scaler or GradScaler()`
        return v.Symbol(s.render(expr), expr.op, items)

    @staticmethod
    def _combined(expr: s.Bool, items: list[v.Value], stop: bool) -> v.Value:
        known = [v.known(i) for i in items if isinstance(i, v.Constant)]
        deciding = next((k for k in known if bool(k.value) == stop), known[-1])
        window = next((k for k in known if k.modulo), None) or next((k for k in known if k.window), None)
        exact = window.exact if window else all(k.exact for k in known)
        return v.Known(
            deciding.value, s.render(expr), exact, any(k.counter for k in known),
            window.window if window else "", any(k.modulo for k in known),
        )  # fmt: skip

    def _unary(self, expr: s.Unary) -> v.Value:
        value = self.it.ev(expr.value)
        if expr.op == "not":
            if isinstance(value, v.Constant):
                return _like(value, not value.value, expr)
            return v.Symbol(s.render(expr), "not", [value])
        if isinstance(value, v.Tensor):
            return value
        if expr.op == "-" and isinstance(value, v.Constant) and isinstance(value.value, int | float):
            return _like(value, -value.value, expr)
        return v.Unknown(s.render(expr))

    def _ifexp(self, expr: s.IfExp) -> v.Value:
        test = self.it.ev(expr.test)
        branches = self.it.program.expression_words(expr.then, expr.other)
        interesting = branches.contexts or branches.events or _of_precision(expr)
        without = next((x for x in (expr.then, expr.other) if "no_sync" in self.it.program.said(x).names), None)
        if without is not None and not self.it.conditions.certain(test):
            self.run.unsure_sync += 1
            try:
                return self.it.ev(without)
            finally:
                self.run.unsure_sync -= 1
        return self.it.ev(expr.then if self.it.conditions.decide(test, node=expr, fork=interesting) else expr.other)

    # -- entries, displays, comprehensions

    def _item(self, expr: s.Item) -> v.Value:
        base, index = self.it.ev(expr.base), self.it.ev(expr.index)
        if isinstance(base, v.Collection):
            found = base.at(index)
            if found is not None:
                return found
        if isinstance(base, v.Tensor):
            return self.run.entries.get(base.key, {}).get(index.key, base)
        if isinstance(base, v.Grad):
            return base
        if isinstance(base, v.ParamsValue):
            return v.Parameter(f"{base.key}[{index.key}]", base.params, base.wrap, True)
        key = f"{base.key}[{index.key}]"
        stored = self.run.attributes.get((base.key, index.key))
        if stored is not None:
            return stored
        if isinstance(base, v.Collection) and base.items:
            return base.each[0]
        data = isinstance(base, v.Instance) and not base.module  # `dataset[0]`
        return v.Unknown(key, params=Params(known=True) if data else params_in(base))

    def _display(self, expr: s.Sequence) -> v.Value:
        values: list[v.Value] = []
        for item in expr.items:
            value = self.it.ev(item)
            if isinstance(item, s.Star) and isinstance(value, v.Collection):
                values.extend(value.items)
            else:
                values.append(value)
        return v.Collection(values, {}, KINDS[expr.kind], expr)

    def _dict(self, expr: s.Dict) -> v.Value:
        found = v.Collection(kind=v.Kind.DICT, expr=expr)
        for key, item in expr.pairs:
            value = self.it.ev(item)
            if key is not None:
                found.put(self.it.ev(key), value)
            elif isinstance(value, v.Collection):
                found.items.extend(value.items)
                found.entries.update(value.entries)
            else:
                found.items.append(value)
        return found

    def _comprehension(self, expr: s.Comprehension) -> v.Value:
        iterable = self.it.ev(expr.iterable)
        outer = self.run.frame
        self.run.frame = outer.inner()
        try:
            items = []
            for element in self.elements(iterable, s.render(expr.iterable))[:4]:
                self.it.names.assign(expr.target, element)
                for condition in expr.conditions:
                    self.it.ev(condition)
                items.append(self.it.ev(expr.element))
        finally:
            self.run.frame = outer
        return self._collected(expr, iterable, items)

    def _collected(self, expr: s.Comprehension, iterable: v.Value, items: list[v.Value]) -> v.Value:
        text = s.render(expr)
        lazy = expr.kind is s.Display.GENERATOR
        owners = [i for i in items if isinstance(i, v.Parameter | v.ParamsValue)]
        if owners and len(owners) == len(items):
            params = owners[0].params
            for item in owners[1:]:
                params = params.union(item.params)
            filtered = any(_filters(c) for c in expr.conditions)
            return v.ParamsValue(text, params, lazy, None, False, owners[0].wrap, filtered)
        known = isinstance(iterable, v.Collection) and iterable.whole
        items = items if known else [v.Rest(x) for x in items]
        return v.Collection(items, {}, v.Kind.GENERATOR if lazy else v.Kind.LIST, expr)

    # -- iteration

    def elements(self, iterable: v.Value, text: str) -> list[v.Value]:
        """What the turns of a loop over this give: known entries, or one stand-in."""
        match iterable:
            case v.Collection() if iterable.items:
                return iterable.each
            case v.Collection() if iterable.entries:
                return [*map(v.Constant, iterable.entries)]
            case v.ParamsValue():
                one = v.Parameter(iterable.key, iterable.params, iterable.wrap, iterable.partial)
                if iterable.named:
                    return [v.Collection([v.Unknown(f"{text} name"), one], {}, v.Kind.TUPLE)]
                return [one]
            case v.Counted() if (
                iterable.enumerate and isinstance(iterable.inner, v.Collection) and iterable.inner.items
            ):
                inner = iterable.inner.each
                numbered = ([v.Known(n + iterable.start, str(n)), x] for n, x in enumerate(inner))
                return [v.Collection(row, {}, v.Kind.TUPLE) for row in numbered]
            case v.Tensor():
                return [iterable]
            case v.Grad():
                return [iterable]
            case _:
                return [v.Unknown(f"{iterable.key}[*]", params=params_in(iterable))]

    # -- parameters

    def params_of(self, value: v.Value) -> Params:
        """Whose parameters these are, as far as known."""
        match value:
            case v.ParamsValue() | v.Parameter() | v.Grad():
                return value.params
            case v.Collection():
                parts = [value.entries["params"]] if "params" in value.entries else value.each
                parts = [p for p in parts if not isinstance(p, v.Constant)]
                if not parts:
                    return Params()
                return _union(self.params_of(p) for p in parts)
            case v.Model() | v.Instance() | v.Managing():
                return Params(frozenset({owner(value)}), True)
            case v.Optimizer():
                return value.ref.params
            case v.Unknown():
                if value.params.owners:
                    return value.params
                if self.run.does(Use.OWNER, value) or naming.MODEL.search(naming.last(value.key)):
                    return Params(frozenset({value.key}), True)
                return Params()
            case v.Tensor():
                return Params(value.params.owners | {value.key}, False)
            case _:
                return Params()


# by type, not by match: this runs for every expression of every turn
_EVALUATE: dict[type[s.Node], Callable[[Expressions, Any], v.Value]] = {
    s.Name: Expressions._ev_name,
    s.Attr: Expressions._ev_attr,
    s.Call: Expressions._ev_call,
    s.Const: Expressions._ev_const,
    s.Bin: Expressions._ev_bin,
    s.Compare: Expressions._comparison,
    s.Bool: Expressions._boolean,
    s.Unary: Expressions._unary,
    s.IfExp: Expressions._ifexp,
    s.Item: Expressions._item,
    s.Sequence: Expressions._display,
    s.Dict: Expressions._dict,
    s.Lambda: Expressions._ev_lambda,
    s.Comprehension: Expressions._comprehension,
    s.Star: Expressions._ev_star,
    s.Walrus: Expressions._ev_walrus,
    s.Yield: Expressions._ev_yield,
    s.Other: Expressions._ev_other,
}


def _like(value: v.Constant, number: int | float, expr: s.Expr) -> v.Known:
    """What is computed of one value only."""
    of = v.known(value)
    return v.Known(number, s.render(expr), of.exact, of.counter, of.window, of.modulo)


def _of_precision(expr: s.Expr) -> bool:
    """`torch.float16 if half else None`, `"16-mixed" if amp else "32"`; a number alone is anything."""
    strings = (part.value for part in s.walk_expr(expr) if isinstance(part, s.Const) and isinstance(part.value, str))
    return any("16" in text for text in (*identifiers(expr), *strings))


def _filters(condition: s.Expr) -> bool:
    """Whether a condition on parameters leaves some out that have gradients."""
    match condition:
        case s.Bool():
            return any(_filters(item) for item in condition.items)
        case s.Attr(name="requires_grad"):
            return False
        case s.Compare(left=s.Attr(name="grad"), op="is not" | "!=", right=s.Const(value=None)):
            return False
        case _:
            return True


def _union(parts: Iterable[Params]) -> Params:
    result = Params(known=True)
    for part in parts:
        result = result.union(part)
    return result


def _first_wrap(*wraps: Wrap) -> Wrap:
    return next((w for w in wraps if w is not Wrap.NONE), Wrap.NONE)
