"""Names, attributes and entries: values take their names from what they are bound to, and are known again by them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradlint.events import OptimizerRef, Params, Role
from gradlint.knowledge import frameworks, naming
from gradlint.knowledge.rows import Thing
from gradlint.knowledge.torch_api import DISTRIBUTIONS, INNER_MODULE, INNER_OPTIMIZER
from gradlint.paths import roles, tensors
from gradlint.paths import values as v
from gradlint.paths.run import owner
from gradlint.python import syntax as s
from gradlint.python.scope import Scope
from gradlint.python.usage import Use
from gradlint.records import replace

if TYPE_CHECKING:
    from gradlint.paths.interpreter import Interpreter

#: a class that is a schedule whatever its object is called
_SCHEDULES = re.compile(r"LR$|Schedul|Warm_?[uU]p")
#: where a parameter keeps its gradient
_GRADIENT = ("grad", "_grad")
#: what made a value that is called something else now: a distribution, a backward that gives gradients
_REMEMBERED = (DISTRIBUTIONS, "backward")
#: `p.grad[:] = g`
_WHOLE = (":", "...", "slice")


class Names:
    """What assignments do to values, and what the attributes of a path's own values stand for."""

    def __init__(self, it: Interpreter) -> None:
        self.it = it
        self.run = it.run

    def store(
        self, target: s.Expr | s.Return | s.Assign, base: v.Value | None, value: v.Value, source: s.Expr | None = None
    ) -> v.Value:
        if isinstance(target, s.Name | s.Attr) and isinstance(value, v.Unknown) and value.called:
            if _gives_back(target, value.called, source):
                return self.it.ev(target)
        match target:
            case s.Name():
                if source is not None:
                    # a name for `.grad` is another name, an entry somewhere else is a place to keep it
                    value = self.it.gradients.put_aside(value, target, alias=True)
                self.run.entries.pop(target.id, None)
                if isinstance(value, v.Constant):
                    value = self._as_setting(target.id, value)
                return self.named(value, target.id, target.id)
            case s.Attr() if base is not None:
                return self._attribute_set(base, target, value, source)
            case s.Item() if base is not None:
                return self._item_set(base, target, value, source)
            case s.Assign() if isinstance(base, v.Class):
                return self._of_class(base, target, value)
            case s.Call():
                if isinstance(value, v.Parameter):
                    return v.Parameter(value.key, value.params, value.wrap, True)  # picked one by one: perhaps not all
                return self.it.gradients.put_aside(value, target)
            case _:
                return value

    def _as_setting(self, name: str, value: v.Constant) -> v.Value:
        if isinstance(value.value, bool) and self._is_setting(name, value):
            return self.flag(name, value.value, self.it.core.frame.scope)
        if isinstance(value, v.Known) and value.counter and value.key != name:
            return v.Known(value.value, name, value.exact, True, value.window, value.modulo)
        return value

    def _is_setting(self, name: str, value: v.Constant) -> bool:
        """`use_amp = False`, once, at the top of a script: somebody will set it to True."""
        computed = isinstance(value, v.Known) and (value.window or value.counter)
        if self.it.core.frame is not self.it.core.module or computed or self.run.loops:
            return False
        scope = self.it.core.module.scope
        return scope.only(name) is not None and not self.run.does_with(Use.VARYING, name, scope)

    def flag(self, name: str, usual: bool, scope: Scope | None = None) -> v.Value:
        flag = v.Unknown(name, scope=scope)
        self.run.flags[self.it.conditions.known_as(flag)] = usual
        return flag

    def _attribute_set(self, base: v.Value, target: s.Attr, value: v.Value, source: s.Expr | None) -> v.Value:
        if source is not None and not _is_gradient(target):
            value = self.it.gradients.put_aside(value, target)
        if target.name in _GRADIENT and not isinstance(base, v.Instance | v.External | v.Class | v.Function):
            self.it.gradients.assign_grad(base, target, value, source)
            return value
        if isinstance(base, v.Grad) and target.name == "data":
            if not base.copy:
                self.it.gradients.write_grad(base, target, value, source)  # `p.grad.data = g`
            return value
        if isinstance(base, v.Parameter) and target.name == "data":
            return value
        if target.name == "require_backward_grad_sync":
            self.run.attributes[(owner(base), target.name)] = value
        value = self.named(value, target.name, f"{base.key}.{target.name}")
        if not isinstance(base, v.Instance):
            self.run.attributes[(base.key, target.name)] = value
        return value

    def _item_set(self, base: v.Value, target: s.Item, value: v.Value, source: s.Expr | None) -> v.Value:
        if source is not None and not _is_gradient(target):
            value = self.it.gradients.put_aside(value, target)
        index = self.it.ev(target.index)
        if isinstance(base, v.Grad):
            if isinstance(index, v.Unknown) and index.key in _WHOLE and not base.copy:
                self.it.gradients.write_grad(base, target, value, source)
            return value
        # the text of a list is that of any list that began like it
        key = f"{s.render(target.base) if isinstance(base, v.Collection) else base.key}[{index.key}]"
        value = self.named(value, key, key)
        if isinstance(base, v.Tensor) and isinstance(value, v.Tensor) and not isinstance(target.index, s.Const):
            tensors.entry_by_entry(base, value)
        if not isinstance(base, v.Collection) or not isinstance(index, v.Constant):
            self.run.entries.setdefault(base.key, {})[index.key] = value
            self.run.attributes[(base.key, index.key)] = value
        return value

    def _of_class(self, cls: v.Class, stmt: s.Assign, value: v.Value) -> v.Value:
        """What the body of a class says of a name."""
        if stmt.annotation is not None and isinstance(value, v.Constant):
            if isinstance(value.value, bool):
                return self.flag(naming.last(s.render(stmt.targets[0])), value.value)
            return v.Unknown("")  # a field: whoever makes the object, or a command line, gives it another value
        key = f"{cls.key}.{s.render(stmt.targets[0])}"
        return self.it.conditions.settle(key, value, self.it.core.frame.scope)

    # -- names of values

    def named(self, value: v.Value, name: str, key: str) -> v.Value:
        """A value that was just made takes the name it is bound to."""
        value = self.it.conditions.settle(key, value, self.it.core.frame.scope)
        match value:
            case v.Unknown() if not value.key or value.called:
                return self._named_result(value, name, key)
            case v.Model() | v.Instance() if not value.key:
                value.key = key
                self.run.made[key] = frozenset(loop.id for loop in self.run.loops)
                if isinstance(value, v.Instance) and value.module and value.given is not None:
                    self._made_of(key, self.it.guesses.modules_in(value.given.every))
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
                for number, item in enumerate(x.value if isinstance(x, v.Rest) else x for x in value.items):
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
        same = next((x for x in value.kept if x.key == key), None)
        if same is not None:
            return same  # `model, optimizer, epoch = load_checkpoint(path, model, optimizer)`
        cls = naming.last(value.called)
        if cls[:1].isupper() and (naming.SCHEDULER.search(name) or _SCHEDULES.search(cls)):
            # a class of the project: how it wants to be stepped is its own affair
            return v.Scheduler(key, None, False, self.run.preparing())
        if value.wraps is not None and cls[:1].isupper() and naming.OPTIMIZER.search(name):
            inner = self.named(value.wraps, name, key)
            return v.Optimizer(key, inner.ref if isinstance(inner, v.Optimizer) else value.wraps.ref)
        if value.called == v.UNPACKED and naming.OPTIMIZER.search(name):
            lasting = self.run.optimizer_for(v.Unknown(key))
            if lasting is not None:
                return lasting  # `opt_g, opt_d = self.optimizers()`: the same ones each time
        if naming.OPTIMIZER.search(name) and value.called and not _is_options(name, value.called):
            ref_params = value.params if value.params.owners else Params()
            guess = roles.suspect(self.run.programs, Role.OPTIMIZER, key)
            ref = OptimizerRef(key, key, Params(ref_params.owners, False), "", self.run.preparing(), guess=guess)
            made = v.Optimizer("", ref)
            return self.named(made, name, key)
        scope = self.it.core.frame.scope
        self.forget(key)
        self.run.made[key] = frozenset(loop.id for loop in self.run.loops)
        self._made_of(key, value.params.owners if cls[:1].isupper() else ())
        if value.called.startswith(_REMEMBERED):
            return replace(value, key=key, scope=scope, grads=None, wraps=None, kept=(), over="")
        # whoever holds it knows it by this name from now on
        value.key, value.scope, value.called = key, scope, ""
        value.grads, value.wraps, value.kept, value.over = None, None, (), ""
        return value

    def _made_of(self, key: str, parts: Iterable[str]) -> None:
        """`net = nn.Sequential(encoder, head)`: whoever clears `net` clears both."""
        self.run.parts.pop(key, None)
        held = frozenset(parts) - {key}
        if held:
            self.run.parts[key] = held

    def forget(self, key: str) -> None:
        """A name was bound anew: what was inferred of the old value is void."""
        for role in (Thing.OPTIMIZER, Thing.SCALER):
            self.run.inferred.pop((key, role), None)

    # -- looking up

    def attribute(self, base: v.Value, expr: s.Attr) -> v.Value | None:
        name = expr.name
        stored = self.run.attributes.get((base.key, name)) if not isinstance(base, v.Instance) else None
        if stored is not None:
            return stored
        match base:
            case v.External():
                return None
            case v.Instance() | v.Class() | v.Super():
                return self._of_object(base, name)
            case v.Model():
                return self._model_attribute(base, name)
            case v.Parameter():
                return v.Grad(f"{base.key}.grad", base.params, base.wrap, base.partial) if name == "grad" else base
            case v.Optimizer() if name in INNER_OPTIMIZER:
                return base  # what is wrapped is what wraps it: they have the same parameters
            case v.Grad():
                return base if name == "data" else v.Bound(base, name)
            case v.Tensor():
                if name in ("data", "shape", "device", "dtype", "grad"):
                    return v.Unknown(f"{base.key}.{name}")
                return base.but(key=f"{base.key}.{name}")
            case v.Managing():
                return self.framework_attribute(base, name)
            case v.Unknown():
                return self._unknown_attribute(base, name)
            case v.Optimizer() | v.Scheduler() | v.Scaler() | v.Context() | v.Collection() | v.Function():
                return v.Bound(base, name)
            case _:
                return v.Unknown(f"{base.key}.{name}")

    def _of_object(self, base: v.Instance | v.Class | v.Super, name: str) -> v.Value:
        found = self.it.core.objects.member(base, name)
        if found is None and name in INNER_MODULE and isinstance(base, v.Instance) and base.module:
            return base  # its class has none: somebody has wrapped it
        if found is None or (isinstance(found, v.Unknown) and not found.key):
            return v.Unknown(f"{base.key}.{name}", params=Params(known=True))
        return found

    def _unknown_attribute(self, base: v.Unknown, name: str) -> v.Value:
        if name == "requires_grad" and base.called and self.it.core.frame.no_grad:
            return v.Known(False, f"{base.key}.{name}")  # what is computed here has no gradient
        if frameworks.tells_window(name) and frameworks.named(naming.last(base.key)) is not None:
            return self.framework_attribute(v.Managing(base.key), name)
        if name == "grad" and naming.last(base.key) not in ("x", "input", "inputs", "data", "img", "image", "images"):
            # `model.head.weight.grad` beside `model.head.parameters()`
            parts = base.key.split(".")
            above = (v.Unknown(".".join(parts[:n]), scope=base.scope) for n in range(1, len(parts)))
            known = any(self.run.does(Use.OWNER, each) for each in above)
            return v.Grad(f"{base.key}.grad", Params(frozenset({base.key}), True) if known else Params())
        if name in ("no_sync", "zero_grad", "backward", "unscale_") or (
            name == "step" and naming.OPTIMIZER.search(naming.last(base.key))
        ):
            return v.Bound(base, name)
        return v.Unknown(f"{self._unwrapped(base)}.{name}", scope=base.scope, params=base.params)

    def _unwrapped(self, base: v.Unknown) -> str:
        """`vae.module.discr` is `vae.discr`: a part that is reached through a wrapper is that of what was wrapped."""
        wrapped, _, inner = base.key.rpartition(".")
        if not wrapped or inner not in INNER_MODULE:
            return base.key
        known = naming.MODEL.search(naming.last(wrapped)) or self.run.does(Use.OWNER, replace(base, key=wrapped))
        return wrapped if known else base.key

    def framework_attribute(self, base: v.Managing, name: str) -> v.Value:
        if frameworks.tells_window(name):
            full = self.run.window_full
            return v.Known(
                True if full is None else full, f"{base.key}.{name}", window=base.window or "the accumulation"
            )
        if name == "module" and base.model is not None:
            return base.model
        return v.Bound(base, name)

    def _model_attribute(self, base: v.Model, name: str) -> v.Value:
        if name in INNER_MODULE:
            return base.inner if base.inner is not None else v.Model(base.key, base.owner)
        if base.inner is not None and not isinstance(base.inner, v.Model):
            inner = self.it.core.attribute(base.inner, s.Attr(-1, s.Name(-1, base.key), name))
            if isinstance(inner, v.Function):
                return inner
        if name in ("no_sync", "parameters", "zero_grad", "clip_grad_norm_", "train", "eval", "step", "backward"):
            return v.Bound(base, name)
        return v.Model(f"{base.key}.{name}", f"{owner(base)}.{name}", base.wrap)

    def base_names(self, cls: v.Class) -> set[str]:
        """The last names of all bases, of bases in this file too."""
        names = set()
        for one in self.it.core.objects.lineage(cls):
            for base in one.node.bases:
                dotted = one.outer.program.dotted(base) or s.render(base)
                names.add(dotted.rpartition(".")[2])
        return names


def _is_options(name: str, called: str) -> bool:
    """`opt = parser.parse_args()` is no optimizer."""
    return name.lower() in ("opt", "opts") and any(
        w in called for w in ("parse", "option", "config", "args", "Namespace")
    )


def _gives_back(target: s.Name | s.Attr, called: str, source: s.Expr | None) -> bool:
    """`self.optimizer = adjust(self.optimizer, epoch)`: a function that gives back the optimizer that it is handed."""
    if not isinstance(source, s.Call):
        return False
    name = target.id if isinstance(target, s.Name) else target.name
    if not naming.OPTIMIZER.search(name) or naming.last(called)[:1].isupper():
        return False
    text = s.render(target)
    return any(s.render(x) == text for x in (*source.args, *source.kwargs.values()))


def _is_gradient(target: s.Expr) -> bool:
    """`p.grad`, `p.grad.data`, `p.grad[:]`."""
    if isinstance(target, s.Item) or (isinstance(target, s.Attr) and target.name == "data"):
        return _is_gradient(target.base)
    return isinstance(target, s.Attr) and target.name in _GRADIENT
