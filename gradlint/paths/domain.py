"""The domain of gradients: what expressions give, as far as training cares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradlint.events import Params, Sync, Wrap
from gradlint.knowledge import naming
from gradlint.knowledge.rows import Switch
from gradlint.paths import tensors
from gradlint.paths import values as v
from gradlint.paths.groups import Parts
from gradlint.paths.run import owner, params_in
from gradlint.python import syntax as s
from gradlint.python.binding import identifiers
from gradlint.python.frame import Frame, define
from gradlint.python.usage import Use
from gradlint.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gradlint.paths.interpreter import Interpreter

#: of a collection so many are looked at
_MOST = 4


class Training:
    """What the evaluator asks; see `python.values.Domain`."""

    def __init__(self, it: Interpreter) -> None:
        self.it = it
        self.run = it.run
        # what others answer
        self.attribute = it.names.attribute
        self.store = it.names.store
        self.parameter = it.calls.parameter

    def unknown(self, name: str) -> v.Value:
        return v.Unknown(name)

    def call(self, callee: v.Value, node: s.Call, given: v.Arguments) -> v.Value:
        made = self.it.calls.call(callee, node, given)
        return tensors.measured(made, given.every) if self.run.measures else made

    def method(self, base: v.Value, name: str, node: s.Call, given: v.Arguments) -> v.Value:
        made = self.it.methods.method(base, name, node, given)
        return tensors.measured(made, [base, *given.every]) if self.run.measures else made

    def enter(self, frame: Frame, caller: Frame) -> None:
        """Of another file, the functions and classes are those that its slice has."""
        if frame.outer is None:
            self.run.programs.append(frame.program)
            define(frame.program.core, frame)

    def truth(self, value: v.Value, node: s.If | s.IfExp | s.Comprehension) -> bool:
        if isinstance(node, s.Comprehension):
            return True  # whatever is left out, what is let in is looked at
        if isinstance(node, s.If):
            return self.it.conditions.decide(value, node=node)
        branches = self.it.program.expression_words(node.then, node.other)
        interesting = branches.contexts or branches.events or _of_precision(node)
        without = next((x for x in (node.then, node.other) if "no_sync" in self.it.program.said(x).names), None)
        if without is not None and not self.it.conditions.certain(value):
            return without is node.then
        return self.it.conditions.decide(value, node=node, fork=interesting)

    def join(self, one: v.Value, other: v.Value) -> v.Value:
        """One stands for all: that of which more is known."""
        return other if isinstance(one, v.Constant | v.Unknown) and not isinstance(other, v.Constant) else one

    # -- operators

    def operate(self, expr: s.Expr, values: list[v.Value]) -> v.Value:
        return _OPERATE.get(type(expr), Training._of_parts)(self, expr, values)

    def _of_parts(self, expr: s.Expr, values: list[v.Value]) -> v.Value:
        return v.Unknown(expr.label if isinstance(expr, s.Other) else s.render(expr))

    def _compared(self, expr: s.Compare, values: list[v.Value]) -> v.Value:
        left, right = values
        return self.it.conditions.compare(expr.op, left, right, s.render(expr))

    def _yielded(self, expr: s.Yield, values: list[v.Value]) -> v.Value:
        self.run.yielded = list(self.run.contexts)
        return v.Unknown("yield")

    def _chosen(self, expr: s.IfExp, values: list[v.Value]) -> v.Value:
        """`model.no_sync() if odd else nullcontext()`: whether it syncs is somebody else's affair."""
        test, chosen = values
        if self.it.conditions.certain(test):
            return chosen
        match chosen:
            case v.Context(kind=Switch.NO_SYNC):
                return replace(chosen, sync=Sync.MANAGED)
            case v.Bound(name="no_sync") | v.Partial(func=v.Bound(name="no_sync")):
                return v.Unknown("no_sync")  # it is called later
            case _:
                return chosen

    def _counted(self, expr: s.Bin, values: list[v.Value]) -> v.Value:
        """What is left of a counter tells of a window."""
        left, right = values
        op, size, right = _as_modulo(expr, left, right)
        result = self.binary(op, left, right, s.render(expr))
        if op == "%" and isinstance(result, v.Known) and result.window:
            self.it.conditions.sized(right)
            # N in the words that stand here, not those of a caller
            result = replace(result, window=size)
            self.run.counted_in[result.window] = self.it.program.path
            number = v.whole_number(right)
            if number is not None:
                self.run.sizes[result.window] = number
        return result

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
        counted = self.it.conditions.counted(op, left, right)
        of_scale = any(isinstance(side, v.Unknown) and side.of_scale for side in (left, right))
        params = params_in(left).union(params_in(right))
        made = v.Unknown(text, params=params, grads=held, counted=counted, of_scale=of_scale)
        return tensors.measured(made, [left, right]) if self.run.measures else made

    def _joined(self, left: v.Value, right: v.Value, text: str) -> v.Value:
        if isinstance(left, v.Collection) and isinstance(right, v.Collection):
            return v.Collection([*left.items, *right.items], {}, left.kind)
        params = self.params_of(left).union(self.params_of(right))
        return v.ParamsValue(text, params, wrap=_first_wrap(self.run.wrap_of(left), self.run.wrap_of(right)))

    def _boolean(self, expr: s.Bool, items: list[v.Value]) -> v.Value:
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

    def _unary(self, expr: s.Unary, values: list[v.Value]) -> v.Value:
        value = values[0]
        if expr.op == "not":
            if isinstance(value, v.Constant):
                return _like(value, not value.value, expr)
            return v.Symbol(s.render(expr), "not", [value])
        if isinstance(value, v.Tensor):
            return value
        if expr.op == "-" and isinstance(value, v.Constant) and isinstance(value.value, int | float):
            return _like(value, -value.value, expr)
        return v.Unknown(s.render(expr))

    # -- entries, comprehensions, iteration

    def item(self, base: v.Value, index: v.Value | None, expr: s.Expr) -> v.Value:
        if index is None:
            return self._part(base)
        match base:
            case v.Tensor():
                return self.run.entries.get(base.key, {}).get(index.key, base)
            case v.Grad():
                return base
            case v.ParamsValue():
                return v.Parameter(f"{base.key}[{index.key}]", base.params, base.wrap, True)
        named = not isinstance(base, v.Collection) or not isinstance(index, v.Constant)
        stored = self.run.attributes.get((base.key, index.key)) if named else None
        if stored is not None:
            return stored
        batches, size = _part_of_many(expr)
        if size and naming.BATCHES.search(naming.last(batches)):
            return v.Counted(f"{batches}[{index.key}]", exact=False, inner=v.Unknown(batches), window=size)
        if isinstance(base, v.Collection) and base.items:
            return base.each[0]
        functions = base.entries.values() if isinstance(base, v.Collection) else ()
        if functions and all(isinstance(x, v.Function) for x in functions):
            return next(iter(functions))  # `LOSSES[cfg.loss]`: one stands for all
        data = isinstance(base, v.Instance) and not base.module  # `dataset[0]`
        return v.Unknown(f"{base.key}[{index.key}]", params=Params(known=True) if data else params_in(base))

    @staticmethod
    def _part(value: v.Value) -> v.Value:
        """What one of several names gets."""
        if isinstance(value, v.Tensor):
            return value
        if isinstance(value, v.Collection) and value.items and not value.whole:
            return value.each[0]
        called, kept = (value.called, value.kept) if isinstance(value, v.Unknown) else ("", ())
        return v.Unknown("", called=called or v.UNPACKED, params=params_in(value), kept=kept)

    def _collected(self, expr: s.Comprehension, values: list[v.Value]) -> v.Value:
        made = values[0]
        if not isinstance(made, v.Collection):
            return made
        if expr.kind is s.Display.DICT:
            return made
        owners = [x for x in made.each if isinstance(x, v.Parameter | v.ParamsValue)]
        if not owners or len(owners) < len(made.items):
            return made
        params = _union(item.params for item in owners)
        filtered = any(_filters(c) for c in expr.conditions)
        lazy = expr.kind is s.Display.GENERATOR
        return v.ParamsValue(s.render(expr), params, lazy, None, False, owners[0].wrap, filtered)

    def iterate(self, value: v.Value, target: s.Expr | None) -> v.Turns:
        known = isinstance(value, v.Collection) and value.whole and bool(value.items or value.entries)
        return v.Turns(self.elements(value)[:_MOST], whole=known)

    def elements(self, iterable: v.Value) -> list[v.Value]:
        """What the turns of a loop over this give: known entries, or one stand-in."""
        match iterable:
            case v.Collection() if iterable.items:
                return iterable.each
            case v.Collection() if iterable.entries:
                return [*map(v.Constant, iterable.entries)]
            case v.ParamsValue():
                one = v.Parameter(iterable.key, iterable.params, iterable.wrap, iterable.partial)
                return [v.row(v.Unknown(f"{iterable.key} name"), one) if iterable.named else one]
            case v.Counted(inner=v.Collection() as inner) if iterable.enumerate and inner.items:
                return [v.row(v.Known(n + iterable.start, str(n)), x) for n, x in enumerate(inner.each)]
            case v.Counted(inner=v.Value() as inner) if iterable.enumerate:
                number = v.Known(iterable.start, iterable.key, exact=False, counter=True)
                return [v.row(number, self.elements(inner)[0])]
            case v.Counted(inner=v.Collection() as columns):
                return [v.row(*(self.elements(column)[0] for column in columns.items))]
            case v.Tensor() | v.Grad():
                return [iterable]
            case _:
                inside = Parts.MICRO if _goes_over(iterable, Parts.WINDOWS) else Parts.UNKNOWN
                unknown = v.Unknown(f"{iterable.key}[*]", params=params_in(iterable), parts=inside)
                return [_entry_of_many(iterable) or unknown]

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


# by type, not by match: this runs for every operator of every turn
_OPERATE: dict[type[s.Node], Callable[[Training, Any, list[v.Value]], v.Value]] = {
    s.Bin: Training._counted,
    s.Compare: Training._compared,
    s.Bool: Training._boolean,
    s.Unary: Training._unary,
    s.IfExp: Training._chosen,
    s.Comprehension: Training._collected,
    s.Yield: Training._yielded,
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


def _entry_of_many(iterable: v.Value) -> v.Value | None:
    """What `optimizers.values()` and `optimizers.items()` give: one of the optimizers, and what it is called."""
    many, _, view = iterable.key.rpartition(".")
    last = naming.last(many)
    if view in _NAMED_PARTS:
        return v.row(v.Unknown(f"{many} name"), v.Unknown(f"{iterable.key}[*]", params=params_in(iterable)))
    if view not in ("values()", "items()") or not (naming.OPTIMIZER.search(last) or naming.SCHEDULER.search(last)):
        return None
    one = v.Unknown(f"{many}[*]")
    return one if view == "values()" else v.row(v.Unknown(f"{many} name"), one)


#: what goes over the parts of a model, or of several, together with their names
_NAMED_PARTS = ("items()", "named_children()", "named_modules()")


def _goes_over(value: v.Value | None, parts: Parts) -> bool:
    return isinstance(value, v.Unknown) and value.parts is parts


def is_micro(value: v.Value | None) -> bool:
    """A loop over it goes over micro-batches, `zip(x.chunk(4), y.chunk(4))` too."""
    if isinstance(value, v.Counted) and isinstance(value.inner, v.Collection) and not value.enumerate:
        return any(_goes_over(column, Parts.MICRO) for column in value.inner.items)
    return _goes_over(value, Parts.MICRO)


def _union(parts: Iterable[Params]) -> Params:
    result = Params(known=True)
    for part in parts:
        result = result.union(part)
    return result


def _first_wrap(*wraps: Wrap) -> Wrap:
    return next((w for w in wraps if w is not Wrap.NONE), Wrap.NONE)


def _as_modulo(expr: s.Bin, left: v.Value, right: v.Value) -> tuple[str, str, v.Value]:
    """`i & 3` of a counter is `i % 4`: the operation, the text of its right side, and its value."""
    number = right.value if isinstance(right, v.Constant) else None
    counts = isinstance(left, v.Known) and left.counter
    if expr.op != "&" or not counts or type(number) is not int or number < 1 or number & (number + 1):
        return expr.op, s.render(expr.right), right
    return "%", str(number + 1), v.Constant(number + 1)


def _part_of_many(expr: s.Expr) -> tuple[str, str]:
    """`loader` and `n` of `loader[i : i + n]`."""
    match expr:
        case s.Item(base=base, index=s.Other(children=[low, s.Bin(op="+", left=left, right=size)])):
            return (s.render(base), s.render(size)) if s.render(low) == s.render(left) else ("", "")
        case _:
            return "", ""
