"""Binds names, attributes and entries to values, which take their names from that."""

from __future__ import annotations

import re

from gradlint.events import OptimizerRef, Params, Role
from gradlint.knowledge import naming
from gradlint.paths import roles
from gradlint.paths import values as v
from gradlint.paths.conditions import Conditions
from gradlint.paths.run import Run, owner, params_in
from gradlint.python import syntax as s
from gradlint.records import replace

#: a class that is a schedule whatever its object is called
_SCHEDULES = re.compile(r"LR$|Schedul|Warm_?[uU]p")
#: where a parameter keeps its gradient
_GRADIENT = ("grad", "_grad")
#: `p.grad[:] = g`
_WHOLE = (":", "...", "slice")


class Binding(Conditions):
    """Assignment, in all its forms."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.env = run.module

    def assign_grad(self, base: v.Value, target: s.Attr, value: v.Value, source: s.Expr | None) -> None:
        raise NotImplementedError("abstract: see Gradients")

    def put_aside(self, value: v.Value, node: s.Expr, *, alias: bool = False) -> v.Value:
        raise NotImplementedError("abstract: see Gradients")

    def write_grad(self, grad: v.Grad, target: s.Expr, value: v.Value, source: s.Expr | None) -> None:
        raise NotImplementedError("abstract: see Gradients")

    def assign(self, target: s.Expr, value: v.Value, source: s.Expr | None = None) -> None:
        """`source` is the right-hand side if there is one, for the text of the statement."""
        if source is not None and not _is_gradient(target):
            # a name for `.grad` is another name, an entry somewhere else is a place to keep it
            value = self.put_aside(value, target, alias=isinstance(target, s.Name))
        match target:
            case s.Name():
                if isinstance(value, v.Known) and isinstance(value.value, bool) and self._is_setting(target.id, value):
                    value = self.flag(target.id, value.value)
                elif isinstance(value, v.Known) and value.counter and value.key != target.id:
                    value = v.Known(target.id, value.value, value.exact, True, value.window, value.modulo)
                self.run.entries.pop(target.id, None)
                self.env.bind(target.id, self.named(value, target.id, target.id))
            case s.Attr():
                base = self.ev(target.base)
                self._assign_attribute(base, target, value, source)
            case s.Item():
                base, index = self.ev(target.base), self.ev(target.index)
                if isinstance(base, v.Grad):
                    if isinstance(index, v.Unknown) and index.key in _WHOLE and not base.copy:
                        self.write_grad(base, target, value, source)
                    return
                key = f"{base.key}[{index.key}]"
                named = self.named(value, key, key)
                if isinstance(base, v.Collection):
                    base.entries[index.key] = named
                self.run.entries.setdefault(base.key, {})[index.key] = named
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

    def _assign_attribute(self, base: v.Value, target: s.Attr, value: v.Value, source: s.Expr | None) -> None:
        if target.name in _GRADIENT and not isinstance(base, v.Instance | v.Dotted | v.ClassValue | v.Function):
            self.assign_grad(base, target, value, source)
            return
        if isinstance(base, v.Grad) and target.name == "data":
            if not base.copy:
                self.write_grad(base, target, value, source)  # `p.grad.data = g`
            return
        if isinstance(base, v.Parameter) and target.name == "data":
            return
        key = f"{base.key}.{target.name}"
        if target.name == "require_backward_grad_sync":
            self.run.attributes[(owner(base), target.name)] = value
        self.run.attributes[(base.key, target.name)] = self.named(value, target.name, key)

    def _unpack(self, target: s.Sequence, value: v.Value) -> None:
        items = list(value.items) if isinstance(value, v.Collection) and value.items else None
        for number, element in enumerate(target.items):
            if items is not None and number < len(items) and not isinstance(element, s.Star):
                self.assign(element, items[number])
            elif isinstance(value, v.Tensor):
                self.assign(element, value)
            else:
                called = value.called if isinstance(value, v.Unknown) else ""
                self.assign(element, v.Unknown("", called=called or "unpacked", params=params_in(value)))

    # -- names of values

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
            case v.Collection():
                # optimizers in a list are different ones, whatever a loop calls them in turn
                for number, item in enumerate(value.items):
                    if isinstance(item, v.Optimizer) and not item.key:
                        self.named(item, name, f"{key}[{number}]")
                for entry, item in value.entries.items():
                    if isinstance(item, v.Optimizer) and not item.key:
                        self.named(item, name, f"{key}[{entry}]")
                return value
            case v.Scheduler() | v.Managing() | v.ParamsValue() if not value.key:
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
        cls = naming.last(value.called)
        if cls[:1].isupper() and (naming.SCHEDULER.search(name) or _SCHEDULES.search(cls)):
            # a class of the project: how it wants to be stepped is its own affair
            return v.Scheduler(key, None, False, self.run.preparing())
        if value.wraps is not None and cls[:1].isupper() and naming.OPTIMIZER.search(name):
            inner = self.named(value.wraps, name, key)
            return v.Optimizer(key, inner.ref if isinstance(inner, v.Optimizer) else value.wraps.ref)
        if naming.OPTIMIZER.search(name) and value.called and not _is_options(name, value.called):
            ref_params = value.params if value.params.owners else Params()
            guess = roles.suspect(self.program, Role.OPTIMIZER, key)
            ref = OptimizerRef(key, key, Params(ref_params.owners, False), "", self.run.preparing(), guess=guess)
            made = v.Optimizer("", ref)
            return self.named(made, name, key)
        fresh = v.Unknown(key, params=value.params, counts=value.counts, handed=value.handed)
        self.forget(key)
        return fresh

    def forget(self, key: str) -> None:
        """A name was bound anew: what was inferred of the old value is void."""
        for role in ("optimizer", "scaler"):
            self.run.inferred.pop((key, role), None)


def _is_options(name: str, called: str) -> bool:
    """`opt = parser.parse_args()` is no optimizer."""
    return name.lower() in ("opt", "opts") and any(
        w in called for w in ("parse", "option", "config", "args", "Namespace")
    )


def _is_gradient(target: s.Expr) -> bool:
    """`p.grad`, `p.grad.data`, `p.grad[:]`."""
    if isinstance(target, s.Item) or (isinstance(target, s.Attr) and target.name == "data"):
        return _is_gradient(target.base)
    return isinstance(target, s.Attr) and target.name in _GRADIENT
