"""Names, attributes and entries: binds them to values, which take their names from that, and looks them up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradlint.events import OptimizerRef, Params, Role
from gradlint.knowledge import frameworks, naming
from gradlint.knowledge.rows import Thing
from gradlint.knowledge.torch_api import INNER_OPTIMIZER, USUAL_NAMES
from gradlint.paths import roles
from gradlint.paths import values as v
from gradlint.paths.run import owner, params_in
from gradlint.python import syntax as s
from gradlint.python.classes import Classes, MemberKind
from gradlint.python.constants import BUILTINS
from gradlint.python.scope import Scope, Scopes
from gradlint.python.usage import Use
from gradlint.records import replace

if TYPE_CHECKING:
    from gradlint.paths.interpreter import Interpreter
    from gradlint.python.project import Definition

#: a class that is a schedule whatever its object is called
_SCHEDULES = re.compile(r"LR$|Schedul|Warm_?[uU]p")
#: where a parameter keeps its gradient
_GRADIENT = ("grad", "_grad")
#: `p.grad[:] = g`
_WHOLE = (":", "...", "slice")


class Names:
    """Assignment in all its forms, and what a name or an attribute stands for."""

    def __init__(self, it: Interpreter) -> None:
        self.it = it
        self.run = it.run

    def assign(self, target: s.Expr, value: v.Value, source: s.Expr | None = None) -> None:
        """`source` is the right-hand side if there is one, for the text of the statement."""
        if source is not None and not _is_gradient(target):
            # a name for `.grad` is another name, an entry somewhere else is a place to keep it
            value = self.it.gradients.put_aside(value, target, alias=isinstance(target, s.Name))
        match target:
            case s.Name():
                if isinstance(value, v.Known) and isinstance(value.value, bool) and self._is_setting(target.id, value):
                    value = self.flag(target.id, value.value, self.run.env.scope)
                elif isinstance(value, v.Known) and value.counter and value.key != target.id:
                    value = v.Known(target.id, value.value, value.exact, True, value.window, value.modulo)
                self.run.entries.pop(target.id, None)
                self.run.env.bind(target.id, self.named(value, target.id, target.id))
            case s.Attr():
                base = self.it.ev(target.base)
                self._assign_attribute(base, target, value, source)
            case s.Item():
                base, index = self.it.ev(target.base), self.it.ev(target.index)
                if isinstance(base, v.Grad):
                    if isinstance(index, v.Unknown) and index.key in _WHOLE and not base.copy:
                        self.it.gradients.write_grad(base, target, value, source)
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
        if self.run.env is not self.run.module or value.window or value.counter or self.run.loops:
            return False
        scope = self.run.module.scope
        return scope.only(name) is not None and not self.run.does_with(Use.VARYING, name, scope)

    def flag(self, name: str, usual: bool, scope: Scope | None = None) -> v.Value:
        flag = v.Unknown(name, scope=scope)
        self.run.flags[self.it.conditions.known_as(flag)] = usual
        return flag

    def _assign_attribute(self, base: v.Value, target: s.Attr, value: v.Value, source: s.Expr | None) -> None:
        if target.name in _GRADIENT and not isinstance(base, v.Instance | v.Dotted | v.ClassValue | v.Function):
            self.it.gradients.assign_grad(base, target, value, source)
            return
        if isinstance(base, v.Grad) and target.name == "data":
            if not base.copy:
                self.it.gradients.write_grad(base, target, value, source)  # `p.grad.data = g`
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
        value = self.it.conditions.settle(key, value, self.run.env.scope)
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
            guess = roles.suspect(self.run.programs, Role.OPTIMIZER, key)
            ref = OptimizerRef(key, key, Params(ref_params.owners, False), "", self.run.preparing(), guess=guess)
            made = v.Optimizer("", ref)
            return self.named(made, name, key)
        fresh = v.Unknown(key, scope=self.run.env.scope, params=value.params, counts=value.counts, handed=value.handed)
        self.forget(key)
        return fresh

    def forget(self, key: str) -> None:
        """A name was bound anew: what was inferred of the old value is void."""
        for role in (Thing.OPTIMIZER, Thing.SCALER):
            self.run.inferred.pop((key, role), None)

    # -- looking up

    def look_up(self, name: str) -> v.Value:
        found = self.run.env.find(name)
        program = self.it.program
        if found is not None:
            if type(found) is v.Dotted and program.project is not None:
                return self.elsewhere(program.elsewhere(found.key), name) or found
            return found
        dotted = program.imports.get(name)
        if dotted is not None:
            return self.elsewhere(program.elsewhere(dotted), name) or v.Dotted(dotted)
        if program.project is not None:
            found = self._of_module(name) or self.elsewhere(program.of_star(name), name)
            if found is not None:
                return found
        if name in BUILTINS:
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
                dotted = f"{base.key}.{name}"
                return self.elsewhere(self.it.program.elsewhere(dotted), name) or v.Dotted(dotted)
            case v.Instance():
                return self._instance_attribute(base, name, node)
            case v.Model():
                return self._model_attribute(base, name)
            case v.Parameter():
                return v.Grad(f"{base.key}.grad", base.params, base.wrap, base.partial) if name == "grad" else base
            case v.Optimizer() if name in INNER_OPTIMIZER:
                return base  # what is wrapped is what wraps it: they have the same parameters
            case v.Grad():
                return base if name == "data" else v.Bound(f"{base.key}.{name}", base, name)
            case v.Tensor():
                if name in ("data", "shape", "device", "dtype", "grad"):
                    return v.Unknown(f"{base.key}.{name}")
                return base.but(key=f"{base.key}.{name}")
            case v.Managing():
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
        if name == "requires_grad" and base.called and self.run.no_grad:
            return v.Known(f"{base.key}.{name}", False)  # what is computed here has no gradient
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
            return v.Bound(f"{base.key}.{name}", base, name)
        return v.Unknown(f"{base.key}.{name}", scope=base.scope, params=base.params)

    def framework_attribute(self, base: v.Managing, name: str) -> v.Value:
        if frameworks.tells_window(name):
            full = self.run.window_full
            return v.Known(
                f"{base.key}.{name}", True if full is None else full, window=base.window or "the accumulation"
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
            classes = (found.env or self.run.module).program.once(Classes)
            kind = classes.kind(found.node) if isinstance(found.node, s.Def) else None
            if kind is MemberKind.PROPERTY:
                return self.it.calls.invoke(bound, [], {}, node)
            if kind is MemberKind.STATIC:
                return v.Function(found.key, found.node, found.env, None, found.cls)
            return bound
        if found is not None:
            return found
        return v.Unknown(f"{base.key}.{name}", params=Params(known=True))

    def _class_attribute(self, base: v.ClassValue, name: str) -> v.Value:
        return self.find_in_class(base, name) or v.Unknown(f"{base.key}.{name}")

    # -- other files

    def elsewhere(self, found: Definition | None, name: str) -> v.Value | None:
        """What a name stands for that another file defines."""
        if found is None:
            return None
        env = self.run.enter(found.program)
        if found.value is not None:
            return self._evaluated(found.value, env, name)
        known = env.names.get(found.node.name) if found.node is not None else None
        if isinstance(known, v.Function | v.ClassValue) and _same_place(known.node, found.node):
            return known
        if isinstance(found.node, s.Def):
            return v.Function(found.node.name, found.node, env)
        return v.ClassValue(found.node.name, found.node, env) if found.node is not None else None

    def _of_module(self, name: str) -> v.Value | None:
        """What the code of another file gives a name, of which only what is asked for is looked at."""
        env = self.run.env
        while env.outer is not None:
            env = env.outer
        if env is self.run.module:
            return None
        values = env.program.once(Scopes).module.names.get(name, ())
        return self._evaluated(values[0].value, env, name) if len(values) == 1 else None

    def _evaluated(self, value: s.Expr, env: v.Env, name: str) -> v.Value:
        env.names[name] = v.Unknown(name)  # for whoever asks for it while it is looked for
        outer, self.run.env = self.run.env, env
        events = len(self.run.events)
        try:
            self.assign(s.Name(value.node, name), self.it.ev(value))
        finally:
            self.run.env = outer
            del self.run.events[events:]
        return env.names[name]

    # -- classes of this file

    def find_in_class(self, cls: v.ClassValue | None, name: str, depth: int = 0) -> v.Value | None:
        """A method or class attribute, through the bases that this file defines."""
        if cls is None or cls.node is None or depth > 6:
            return None
        program = cls.env.program if cls.env is not None else self.it.program
        classes = program.once(Classes)
        member = classes.own(cls.node, name)
        whole = program.classes.get(cls.node.name) if member is None and program.path else None
        if whole is not None and _same_place(whole, cls.node):
            member = classes.own(whole, name)  # what cannot matter there may matter here: a constant
        stmt = member.stmt if member is not None else None
        if isinstance(stmt, s.Def):
            return v.Function(f"{cls.key}.{name}", stmt, cls.env, None, cls)
        if isinstance(stmt, s.Assign):
            value = self.it.ev(stmt.value)
            if stmt.annotation is not None and isinstance(value, v.Known):
                if isinstance(value.value, bool):
                    return self.flag(name, value.value)
                return None  # a field: whoever makes the object, or a command line, gives it another value
            return self.it.conditions.settle(f"{cls.key}.{name}", value, self.run.env.scope)
        for base in cls.node.bases:
            found = self.base_class(base, cls)
            if found is not None:
                inherited = self.find_in_class(found, name, depth + 1)
                if inherited is not None:
                    return inherited
        return None

    def base_class(self, base: s.Expr, cls: v.ClassValue) -> v.ClassValue | None:
        """The class that a base is, where the file or the project says so."""
        outer, self.run.env = self.run.env, cls.env or self.run.module
        try:
            value = self.it.ev(base) if isinstance(base, s.Name | s.Attr) else None
        finally:
            self.run.env = outer
        return value if isinstance(value, v.ClassValue) and value.node is not cls.node else None

    def base_names(self, cls: v.ClassValue | None, depth: int = 0) -> set[str]:
        """The last names of all bases, of bases in this file too."""
        if cls is None or cls.node is None or depth > 6:
            return set()
        names = set()
        for base in cls.node.bases:
            program = cls.env.program if cls.env is not None else self.it.program
            dotted = program.dotted(base) or s.render(base)
            names.add(dotted.rpartition(".")[2])
            found = self.base_class(base, cls)
            if found is not None:
                names |= self.base_names(found, depth + 1)
        return names


def _same_place(known: s.Node | None, found: s.Node | None) -> bool:
    """One is the other, perhaps with what cannot matter cut away."""
    return known is not None and found is not None and known.node == found.node


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
