"""Evaluates expressions to abstract values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gradlint.events import Norm, OptimizerRef, Params, Wrap
from gradlint.frontend import syntax as s
from gradlint.frontend import values as v
from gradlint.frontend.interp import tensors
from gradlint.frontend.interp.conditions import Conditions
from gradlint.frontend.interp.run import Run, owner
from gradlint.frontend.knowledge import naming
from gradlint.frontend.knowledge.torch_api import USUAL_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_BUILTINS = {
    "len", "range", "enumerate", "zip", "list", "tuple", "filter", "map", "iter", "next", "sum", "max", "min", "int",
    "bool", "float", "hasattr", "getattr", "setattr", "isinstance", "super", "print", "sorted", "reversed", "set", "dict",
    "abs", "round", "any", "all", "str", "type", "callable", "exit", "quit", "vars", "id", "repr", "open", "input",
    "tqdm", "trange",
}  # fmt: skip


class Expressions(Conditions):
    """Names, attributes, operators, displays. Calls are in the layer above."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.env = run.module

    def call(self, node: s.Call) -> v.Value:
        raise NotImplementedError("abstract: see Calls")

    def invoke(self, function: v.Function, args: list[v.Value], kwargs: dict[str, v.Value], node: s.Node) -> v.Value:
        raise NotImplementedError("abstract: see Calls")

    def ev(self, expr: s.Expr) -> v.Value:
        return _EVALUATE[type(expr)](self, expr)

    def _ev_name(self, expr: s.Name) -> v.Value:
        return self._name(expr.id)

    def _ev_attr(self, expr: s.Attr) -> v.Value:
        return self.attribute(self.ev(expr.base), expr.name, expr)

    def _ev_call(self, expr: s.Call) -> v.Value:
        return self.call(expr)

    def _ev_const(self, expr: s.Const) -> v.Value:
        return v.Known(s.render(expr), expr.value)

    def _ev_bin(self, expr: s.Bin) -> v.Value:
        return self._binary(expr.op, self.ev(expr.left), self.ev(expr.right), s.render(expr))

    def _ev_lambda(self, expr: s.Lambda) -> v.Value:
        return v.Function(s.render(expr), expr, self.env)

    def _ev_star(self, expr: s.Star) -> v.Value:
        return self.ev(expr.value)

    def _ev_walrus(self, expr: s.Walrus) -> v.Value:
        self.assign(expr.target, self.ev(expr.value))
        return self.ev(expr.target)

    def _ev_yield(self, expr: s.Yield) -> v.Value:
        if expr.value is not None:
            self.ev(expr.value)
        self.run.yielded = list(self.run.contexts)
        return v.Unknown("yield")

    def _ev_other(self, expr: s.Other) -> v.Value:
        for child in expr.children:
            self.ev(child)
        return v.Unknown(expr.label)

    # -- names and attributes

    def _name(self, name: str) -> v.Value:
        found = self.env.find(name)
        if found is not None:
            return found
        dotted = self.program.imports.get(name)
        if dotted is not None:
            return v.Dotted(dotted)
        if name in _BUILTINS:
            return v.Dotted(f"builtins.{name}")
        if name in USUAL_NAMES:
            return v.Dotted(USUAL_NAMES[name])
        return v.Unknown(name)

    def attribute(self, base: v.Value, name: str, node: s.Attr) -> v.Value:
        stored = self.run.attributes.get((base.key, name))
        if stored is not None:
            return stored
        match base:
            case v.Dotted():
                return v.Dotted(f"{base.key}.{name}")
            case v.Instance():
                return self._instance_attribute(base, name, node)
            case v.Model():
                return self._model_attribute(base, name)
            case v.Parameter():
                return v.Grad(f"{base.key}.grad", base.params, base.wrap, base.partial) if name == "grad" else base
            case v.Grad():
                return base if name == "data" else v.Bound(f"{base.key}.{name}", base, name)
            case v.Tensor():
                if name in ("data", "shape", "device", "dtype", "grad"):
                    return v.Unknown(f"{base.key}.{name}")
                return base.but(key=f"{base.key}.{name}")
            case v.Framework():
                return self.framework_attribute(base, name)
            case v.ClassValue():
                return self._class_attribute(base, name)
            case v.Unknown():
                return self._unknown_attribute(base, name)
            case v.Optimizer() | v.Scheduler() | v.Scaler() | v.Context() | v.Collection() | v.Function():
                return v.Bound(f"{base.key}.{name}", base, name)
            case _:
                return v.Unknown(f"{base.key}.{name}")

    def _unknown_attribute(self, base: v.Unknown, name: str) -> v.Value:
        if name == "sync_gradients" and naming.ACCELERATOR.search(naming.last(base.key)):
            return self.framework_attribute(v.Framework(base.key), name)
        if name == "grad" and naming.last(base.key) not in ("x", "input", "inputs", "data", "img", "image", "images"):
            return v.Grad(f"{base.key}.grad", Params())
        if name in ("no_sync", "zero_grad", "backward", "unscale_") or (
            name == "step" and naming.OPTIMIZER.search(naming.last(base.key))
        ):
            return v.Bound(f"{base.key}.{name}", base, name)
        return v.Unknown(f"{base.key}.{name}", params=base.params)

    def framework_attribute(self, base: v.Framework, name: str) -> v.Value:
        if name == "sync_gradients":
            sync = self.run.accelerate_sync
            return v.Known(
                f"{base.key}.{name}", True if sync is None else sync, window=base.window or "the accumulation"
            )
        if name == "module" and base.model is not None:
            return base.model
        return v.Bound(f"{base.key}.{name}", base, name)

    def _model_attribute(self, base: v.Model, name: str) -> v.Value:
        if name in ("module", "_orig_mod", "_fsdp_wrapped_module"):
            return base.inner if base.inner is not None else v.Model(base.key, base.owner)
        if base.inner is not None and not isinstance(base.inner, v.Model):
            inner = self.attribute(base.inner, name, s.Attr(-1, s.Name(-1, base.key), name))
            if isinstance(inner, v.Function):
                return inner
        if name in ("no_sync", "parameters", "zero_grad", "clip_grad_norm_", "train", "eval", "step", "backward"):
            return v.Bound(f"{base.key}.{name}", base, name)
        return v.Model(f"{base.key}.{name}", f"{owner(base)}.{name}", base.wrap)

    def _instance_attribute(self, base: v.Instance, name: str, node: s.Attr) -> v.Value:
        found = self.find_in_class(base.cls, name)
        if isinstance(found, v.Function):
            bound = v.Function(f"{base.key}.{name}", found.node, found.env, base, found.cls)
            if isinstance(found.node, s.Def) and any(
                s.render(d).rpartition(".")[2] in ("property", "cached_property") for d in found.node.decorators
            ):
                return self.invoke(bound, [], {}, node)
            if isinstance(found.node, s.Def) and any(s.render(d) == "staticmethod" for d in found.node.decorators):
                return v.Function(found.key, found.node, found.env, None, found.cls)
            return bound
        if found is not None:
            return found
        return v.Unknown(f"{base.key}.{name}", params=Params(known=True))

    def _class_attribute(self, base: v.ClassValue, name: str) -> v.Value:
        return self.find_in_class(base, name) or v.Unknown(f"{base.key}.{name}")

    def find_in_class(self, cls: v.ClassValue | None, name: str, depth: int = 0) -> v.Value | None:
        """A method or class attribute, through the bases that this file defines."""
        if cls is None or cls.node is None or depth > 6:
            return None
        stmt = self.program.member(cls.node, name)
        if isinstance(stmt, s.Def):
            return v.Function(f"{cls.key}.{name}", stmt, cls.env, None, cls)
        if isinstance(stmt, s.Assign):
            return self.settle(name, self.ev(stmt.value))
        for base in cls.node.bases:
            found = self._base_class(base, cls)
            if found is not None:
                value = self.find_in_class(found, name, depth + 1)
                if value is not None:
                    return value
        return None

    def _base_class(self, base: s.Expr, cls: v.ClassValue) -> v.ClassValue | None:
        name = s.render(base).rpartition(".")[2]
        value = self.run.module.find(name) or (cls.env.find(name) if cls.env else None)
        if isinstance(value, v.ClassValue):
            return value
        node = self.program.classes.get(name)
        return v.ClassValue(name, node, self.run.module) if node is not None and node is not cls.node else None

    def base_names(self, cls: v.ClassValue | None, depth: int = 0) -> set[str]:
        """The last names of all bases, of bases in this file too."""
        if cls is None or cls.node is None or depth > 6:
            return set()
        names = set()
        for base in cls.node.bases:
            dotted = self.program.dotted(base) or s.render(base)
            names.add(dotted.rpartition(".")[2])
            found = self._base_class(base, cls)
            if found is not None:
                names |= self.base_names(found, depth + 1)
        return names

    # -- operators

    def _binary(self, op: str, left: v.Value, right: v.Value, text: str) -> v.Value:
        tensor = tensors.arithmetic(op, left, right, text)
        if tensor is not None:
            return tensor
        if op == "%" and isinstance(left, v.Known) and isinstance(left.value, str):
            return v.Unknown(text)
        number = self.arithmetic(op, left, right, text)
        if number is not None:
            return number
        if op == "+" and (isinstance(left, v.ParamsValue | v.Collection) or isinstance(right, v.ParamsValue)):
            return self._joined(left, right, text)
        if isinstance(left, v.Grad):
            return v.Grad(left.key, left.params, left.wrap, left.partial, op, right.key)
        return v.Unknown(text, params=_params(left).union(_params(right)))

    def _joined(self, left: v.Value, right: v.Value, text: str) -> v.Value:
        if isinstance(left, v.Collection) and isinstance(right, v.Collection):
            return v.Collection(text, [*left.items, *right.items], {}, left.kind)
        params = self.params_of(left).union(self.params_of(right))
        return v.ParamsValue(text, params, wrap=max_wrap(self.run.wrap_of(left), self.run.wrap_of(right)))

    def _comparison(self, expr: s.Compare) -> v.Value:
        left, right = self.ev(expr.left), self.ev(expr.right)
        return self.compare(expr.op, left, right, s.render(expr))

    def _boolean(self, expr: s.Bool) -> v.Value:
        items = [self.ev(item) for item in expr.items]
        stop = expr.op == "or"
        if all(isinstance(item, v.Known) for item in items):
            return self._combined(expr, items, stop)
        for item in items:
            if isinstance(item, v.Known) and bool(item.value) == stop:
                return v.Known(s.render(expr), stop, item.exact, item.counter, item.window, item.modulo)
            if not isinstance(item, v.Known | v.Symbol | v.Unknown | v.Dotted | v.Tensor) and expr.op == "or":
                return item  # `params or []`, `scaler or GradScaler()`
        return v.Symbol(s.render(expr), expr.op, items)

    @staticmethod
    def _combined(expr: s.Bool, items: list[v.Value], stop: bool) -> v.Value:
        known = [i for i in items if isinstance(i, v.Known)]
        deciding = next((k for k in known if bool(k.value) == stop), known[-1])
        window = next((k for k in known if k.modulo), None) or next((k for k in known if k.window), None)
        exact = window.exact if window else all(k.exact for k in known)
        return v.Known(
            s.render(expr), deciding.value, exact, any(k.counter for k in known),
            window.window if window else "", any(k.modulo for k in known),
        )  # fmt: skip

    def _unary(self, expr: s.Unary) -> v.Value:
        value = self.ev(expr.value)
        if expr.op == "not":
            if isinstance(value, v.Known):
                return v.Known(s.render(expr), not value.value, value.exact, value.counter, value.window, value.modulo)
            return v.Symbol(s.render(expr), "not", [value])
        if isinstance(value, v.Tensor):
            return value
        if expr.op == "-" and isinstance(value, v.Known) and isinstance(value.value, int | float):
            return v.Known(s.render(expr), -value.value, value.exact, value.counter, value.window, value.modulo)
        return v.Unknown(s.render(expr))

    def _ifexp(self, expr: s.IfExp) -> v.Value:
        test = self.ev(expr.test)
        branches = self.program.expression_words(expr.then, expr.other)
        interesting = branches.contexts or branches.events or "16" in s.render(expr)
        if "no_sync" in branches.seen and not self.certain(test):
            self.run.unsure_sync += 1
            try:
                return self.ev(expr.then if "no_sync" in s.render(expr.then) else expr.other)
            finally:
                self.run.unsure_sync -= 1
        return self.ev(expr.then if self.decide(test, node=expr, fork=interesting) else expr.other)

    def _item(self, expr: s.Item) -> v.Value:
        base, index = self.ev(expr.base), self.ev(expr.index)
        if isinstance(base, v.Collection):
            if isinstance(index, v.Known):
                found = _entry(base, index)
                if found is not None:
                    return found
            elif base.items:
                return base.items[0]
        if isinstance(base, v.Tensor):
            return base
        if isinstance(base, v.ParamsValue):
            return v.Parameter(f"{base.key}[{index.key}]", base.params, base.wrap, True)
        key = f"{base.key}[{index.key}]"
        stored = self.run.attributes.get((base.key, index.key))
        if stored is not None:
            return stored
        return v.Unknown(key, params=_params(base))

    def _display(self, expr: s.Sequence) -> v.Value:
        items: list[v.Value] = []
        for item in expr.items:
            value = self.ev(item)
            if isinstance(item, s.Star) and isinstance(value, v.Collection):
                items.extend(value.items)
            else:
                items.append(value)
        return v.Collection(s.render(expr), items, {}, expr.kind)

    def _dict(self, expr: s.Dict) -> v.Value:
        entries = {}
        for number, (key, value) in enumerate(expr.pairs):
            name = self.ev(key).key if key is not None else f"**{number}"
            entries[name] = self.ev(value)
        return v.Collection(s.render(expr), [], entries, "dict")

    def _comprehension(self, expr: s.Comprehension) -> v.Value:
        iterable = self.ev(expr.iterable)
        outer = self.env
        self.env = v.Env({}, outer)
        try:
            items = []
            for element in self.elements(iterable, s.render(expr.iterable))[:4]:
                self.assign(expr.target, element)
                for condition in expr.conditions:
                    self.ev(condition)
                items.append(self.ev(expr.element))
        finally:
            self.env = outer
        return self._collected(expr, iterable, items)

    def _collected(self, expr: s.Comprehension, iterable: v.Value, items: list[v.Value]) -> v.Value:
        text = s.render(expr)
        lazy = expr.kind == "generator"
        owners = [i for i in items if isinstance(i, v.Parameter | v.ParamsValue)]
        if owners and len(owners) == len(items):
            params = owners[0].params
            for item in owners[1:]:
                params = params.union(item.params)
            filtered = any(_filters(c) for c in expr.conditions)
            return v.ParamsValue(text, params, lazy, None, False, owners[0].wrap, filtered)
        return v.Collection(text, items, {}, "generator" if lazy else "list", not isinstance(iterable, v.Collection))

    # -- iteration

    def elements(self, iterable: v.Value, text: str) -> list[v.Value]:
        """What the turns of a loop over this give: known entries, or one stand-in."""
        match iterable:
            case v.Collection() if iterable.items:
                return list(iterable.items)
            case v.Collection() if iterable.entries:
                return [v.Known(k, k.strip('"')) for k in iterable.entries]
            case v.ParamsValue():
                one = v.Parameter(iterable.key, iterable.params, iterable.wrap, iterable.partial)
                if iterable.named:
                    return [v.Collection(text, [v.Unknown(f"{text} name"), one])]
                return [one]
            case v.Counted() if (
                iterable.enumerate and isinstance(iterable.inner, v.Collection) and iterable.inner.items
            ):
                inner = iterable.inner.items
                return [v.Collection(text, [v.Known(str(n), n + iterable.start), x]) for n, x in enumerate(inner)]
            case v.Tensor():
                return [iterable]
            case v.Grad():
                return [iterable]
            case _:
                return [v.Unknown(f"{iterable.key}[*]", params=_params(iterable))]

    # -- parameters

    def params_of(self, value: v.Value) -> Params:
        """Whose parameters these are, as far as known."""
        match value:
            case v.ParamsValue() | v.Parameter() | v.Grad():
                return value.params
            case v.Collection():
                parts = (
                    [value.entries['"params"']]
                    if '"params"' in value.entries
                    else [*value.items, *value.entries.values()]
                )
                parts = [p for p in parts if not isinstance(p, v.Known)]
                if not parts:
                    return Params()
                return _union(self.params_of(p) for p in parts)
            case v.Model() | v.Instance() | v.Framework():
                return Params(frozenset({owner(value)}), True)
            case v.Optimizer():
                return value.ref.params
            case v.Unknown():
                if value.params.owners:
                    return value.params
                if value.key in self.program.owners or naming.MODEL.search(naming.last(value.key)):
                    return Params(frozenset({value.key}), True)
                return Params()
            case v.Tensor():
                return Params(value.params.owners | {value.key}, False)
            case _:
                return Params()

    # -- binding

    def assign(self, target: s.Expr, value: v.Value) -> None:
        match target:
            case s.Name():
                if isinstance(value, v.Known) and isinstance(value.value, bool) and self._is_setting(target.id, value):
                    value = self.flag(target.id, value.value)
                elif isinstance(value, v.Known) and value.counter and value.key != target.id:
                    value = v.Known(target.id, value.value, value.exact, True, value.window, value.modulo)
                self.env.bind(target.id, self.named(value, target.id, target.id))
            case s.Attr():
                base = self.ev(target.base)
                self._assign_attribute(base, target, value)
            case s.Item():
                base, index = self.ev(target.base), self.ev(target.index)
                key = f"{base.key}[{index.key}]"
                named = self.named(value, key, key)
                if isinstance(base, v.Collection):
                    base.entries[index.key] = named
                self.run.attributes[(base.key, index.key)] = named
            case s.Sequence():
                self._unpack(target, value)
            case s.Star():
                self.assign(target.value, value)
            case _:
                pass

    def _is_setting(self, name: str, value: v.Known) -> bool:
        """`use_amp = False`, once, at the top of a script: somebody will set it to True."""
        if self.env is not self.run.module or value.window or value.counter or self.run.loops:
            return False
        return len(self.program.assignments.get(name, [])) == 1 and name not in self.program.varying

    def flag(self, name: str, usual: bool) -> v.Value:
        self.run.flags[name] = usual
        return v.Unknown(name)

    def _assign_attribute(self, base: v.Value, target: s.Attr, value: v.Value) -> None:
        if target.name == "grad" and isinstance(base, v.Parameter | v.Unknown | v.Grad):
            self.assign_grad(base, target, value)
            return
        if isinstance(base, v.Parameter | v.Grad) and target.name == "data":
            return
        key = f"{base.key}.{target.name}"
        if target.name == "require_backward_grad_sync":
            self.run.attributes[(owner(base), target.name)] = value
        self.run.attributes[(base.key, target.name)] = self.named(value, target.name, key)

    def assign_grad(self, base: v.Value, target: s.Attr, value: v.Value) -> None:
        raise NotImplementedError("abstract: see Calls")

    def _unpack(self, target: s.Sequence, value: v.Value) -> None:
        items = list(value.items) if isinstance(value, v.Collection) and value.items else None
        for number, element in enumerate(target.items):
            if items is not None and number < len(items) and not isinstance(element, s.Star):
                self.assign(element, items[number])
            elif isinstance(value, v.Tensor):
                self.assign(element, value)
            else:
                name = s.render(element)
                called = value.called if isinstance(value, v.Unknown) else ""
                self.assign(element, v.Unknown("", called=called or "unpacked", params=_params(value)))
                del name

    def named(self, value: v.Value, name: str, key: str) -> v.Value:
        """A value that was just made takes the name it is bound to."""
        value = self.settle(name, value)
        match value:
            case v.Unknown() if not value.key or value.called:
                return self._named_result(value, name, key)
            case v.Model() | v.Instance() if not value.key:
                value.key = key
                if isinstance(value, v.Model) and not value.owner:
                    value.owner = key
                return value
            case v.Optimizer() if not value.key:
                value.key = key
                ref = value.ref
                value.ref = self.run.birth(replace(ref, id=self.run.fresh(key), text=key))
                return value
            case v.Scaler() if not value.key:
                value.key = key
                value.ref = replace(value.ref, id=self.run.fresh(key), text=key)
                return value
            case v.Scheduler() | v.Framework() | v.ParamsValue() if not value.key:
                value.key = key
                return value
            case v.Tensor():
                if naming.OPTIMIZER.search(name) and not naming.LOSS.search(name):
                    # `optimizer = model.configure_optimizers(…)`
                    return self._named_result(v.Unknown("", called="made", params=value.params), name, key)
                return value.but(key=key)
            case _:
                return value

    def _named_result(self, value: v.Unknown, name: str, key: str) -> v.Value:
        if naming.SCHEDULER.search(name) and value.called and naming.last(value.called)[:1].isupper():
            # a class of the project: how it wants to be stepped is its own affair
            return v.Scheduler(key, None, False, self.run.default_manager())
        if naming.OPTIMIZER.search(name) and value.called and not _is_options(name, value.called):
            ref_params = value.params if value.params.owners else Params()
            ref = OptimizerRef(key, key, Params(ref_params.owners, False), "", self.run.default_manager())
            made = v.Optimizer("", ref)
            return self.named(made, name, key)
        fresh = v.Unknown(key, params=value.params)
        self.forget(key)
        return fresh

    def forget(self, key: str) -> None:
        """A name was bound anew: what was inferred of the old value is void."""
        for role in ("optimizer", "scaler"):
            self.run.inferred.pop((key, role), None)


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


def _is_options(name: str, called: str) -> bool:
    """`opt = parser.parse_args()` is no optimizer."""
    return name.lower() in ("opt", "opts") and any(
        w in called for w in ("parse", "option", "config", "args", "Namespace")
    )


def _entry(base: v.Collection, index: v.Known) -> v.Value | None:
    if isinstance(index.value, int) and base.items:
        return base.items[index.value] if -len(base.items) <= index.value < len(base.items) else base.items[0]
    return base.entries.get(index.key)


def _filters(condition: s.Expr) -> bool:
    """Whether a condition on parameters leaves some out that have gradients."""
    text = s.render(condition)
    return "requires_grad" not in text and "grad is not None" not in text


def _params(value: v.Value) -> Params:
    match value:
        case v.Unknown() | v.Tensor():
            return value.params
        case v.Model() | v.Instance():
            return Params(frozenset({owner(value)}), True)
        case v.ParamsValue() | v.Parameter():
            return value.params
        case _:
            return Params(known=True)


def _union(parts: Iterable[Params]) -> Params:
    result = Params(known=True)
    for part in parts:
        result = result.union(part)
    return result


def max_wrap(*wraps: Wrap) -> Wrap:
    return next((w for w in wraps if w is not Wrap.NONE), Wrap.NONE)


__all__ = ["Expressions", "Norm", "max_wrap"]
