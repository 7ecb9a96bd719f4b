"""Names, attributes and entries: binds them to values, which take their names from that, and looks them up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradlint.events import OptimizerRef, Params, Role
from gradlint.knowledge import frameworks, naming
from gradlint.knowledge.rows import Thing
from gradlint.knowledge.torch_api import INNER_OPTIMIZER
from gradlint.paths import roles
from gradlint.paths import values as v
from gradlint.paths.run import owner, params_in
from gradlint.python import syntax as s
from gradlint.python.calls import Arguments
from gradlint.python.classes import Classes, MemberKind
from gradlint.python.frame import Frame, define
from gradlint.python.frame import Names as Scoped
from gradlint.python.scope import Scope
from gradlint.python.usage import Use
from gradlint.records import replace

if TYPE_CHECKING:
    from gradlint.paths.interpreter import Interpreter

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
        #: what names mean
        self.known = Scoped(it.run.module, self._of_another_file, self._enter)
        #: the bases of classes; while a class is kept, its id is its own
        self._lines: dict[int, tuple[v.Class, list[v.Class]]] = {}

    def assign(self, target: s.Expr, value: v.Value, source: s.Expr | None = None) -> None:
        """`source` is the right-hand side if there is one, for the text of the statement."""
        is_name = type(target) is s.Name
        if source is not None and (is_name or not _is_gradient(target)):
            # a name for `.grad` is another name, an entry somewhere else is a place to keep it
            value = self.it.gradients.put_aside(value, target, alias=is_name)
        match target:
            case s.Name():
                if isinstance(value, v.Constant):
                    if isinstance(value.value, bool) and self._is_setting(target.id, value):
                        value = self.flag(target.id, value.value, self.run.frame.scope)
                    elif isinstance(value, v.Known) and value.counter and value.key != target.id:
                        value = v.Known(value.value, target.id, value.exact, True, value.window, value.modulo)
                self.run.entries.pop(target.id, None)
                self.run.frame.bind(target.id, self.named(value, target.id, target.id))
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
                    if not base.put(index, named):
                        base.add(named)
                self.run.entries.setdefault(base.key, {})[index.key] = named
                self.run.attributes[(base.key, index.key)] = named
            case s.Sequence():
                self._unpack(target, value)
            case s.Star():
                self.assign(target.value, value)
            case _:
                pass

    def _is_setting(self, name: str, value: v.Constant) -> bool:
        """`use_amp = False`, once, at the top of a script: somebody will set it to True."""
        computed = isinstance(value, v.Known) and (value.window or value.counter)
        if self.run.frame is not self.run.module or computed or self.run.loops:
            return False
        scope = self.run.module.scope
        return scope.only(name) is not None and not self.run.does_with(Use.VARYING, name, scope)

    def flag(self, name: str, usual: bool, scope: Scope | None = None) -> v.Value:
        flag = v.Unknown(name, scope=scope)
        self.run.flags[self.it.conditions.known_as(flag)] = usual
        return flag

    def _assign_attribute(self, base: v.Value, target: s.Attr, value: v.Value, source: s.Expr | None) -> None:
        if target.name in _GRADIENT and not isinstance(base, v.Instance | v.External | v.Class | v.Function):
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
        items = value.each if isinstance(value, v.Collection) and value.items else None
        more = isinstance(value, v.Collection) and not value.whole
        for number, element in enumerate(target.items):
            if items is not None and (more or number < len(items)) and not isinstance(element, s.Star):
                self.assign(element, items[min(number, len(items) - 1)])
            elif isinstance(value, v.Tensor):
                self.assign(element, value)
            else:
                called, kept = (value.called, value.kept) if isinstance(value, v.Unknown) else ("", ())
                self.assign(element, v.Unknown("", called=called or "unpacked", params=params_in(value), kept=kept))

    # -- names of values

    def named(self, value: v.Value, name: str, key: str) -> v.Value:
        """A value that was just made takes the name it is bound to."""
        value = self.it.conditions.settle(key, value, self.run.frame.scope)
        match value:
            case v.Unknown() if not value.key or value.called:
                return self._named_result(value, name, key)
            case v.Model() | v.Instance() if not value.key:
                value.key = key
                self.run.made[key] = frozenset(loop.id for loop in self.run.loops)
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
        if naming.OPTIMIZER.search(name) and value.called and not _is_options(name, value.called):
            ref_params = value.params if value.params.owners else Params()
            guess = roles.suspect(self.run.programs, Role.OPTIMIZER, key)
            ref = OptimizerRef(key, key, Params(ref_params.owners, False), "", self.run.preparing(), guess=guess)
            made = v.Optimizer("", ref)
            return self.named(made, name, key)
        scope = self.run.frame.scope
        fresh = v.Unknown(key, scope=scope, params=value.params, counts=value.counts, handed=value.handed)
        self.forget(key)
        self.run.made[key] = frozenset(loop.id for loop in self.run.loops)
        return fresh

    def forget(self, key: str) -> None:
        """A name was bound anew: what was inferred of the old value is void."""
        for role in (Thing.OPTIMIZER, Thing.SCALER):
            self.run.inferred.pop((key, role), None)

    # -- looking up

    def look_up(self, name: str) -> v.Value:
        found = self.run.frame.find(name)
        if found is None or type(found) is v.External:
            found = self.known.look_up(name, self.run.frame) or v.Unknown(name)
        return found

    def _enter(self, frame: Frame) -> None:
        """Another file, of which the functions and classes are those that its slice has."""
        self.run.programs.append(frame.program)
        define(frame.program.core, frame)

    def _of_another_file(self, value: s.Expr, frame: Frame, name: str) -> v.Value:
        """What the code of another file gives a name; nothing of what happens there is told."""
        events = len(self.run.events)
        try:
            return self.named(self.it.evaluated(value, frame), name, name)
        finally:
            del self.run.events[events:]

    def attribute(self, base: v.Value, name: str, node: s.Attr) -> v.Value:
        stored = self.run.attributes.get((base.key, name))
        if stored is not None:
            return stored
        match base:
            case v.External():
                return self.known.named(f"{base.dotted}.{name}", self.run.frame)
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
            case v.Class():
                return self._class_attribute(base, name)
            case v.Unknown():
                return self._unknown_attribute(base, name)
            case v.Optimizer() | v.Scheduler() | v.Scaler() | v.Context() | v.Collection() | v.Function():
                return v.Bound(f"{base.key}.{name}", base, name)
            case _:
                return v.Unknown(f"{base.key}.{name}")

    def _unknown_attribute(self, base: v.Unknown, name: str) -> v.Value:
        if name == "requires_grad" and base.called and self.run.no_grad:
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
            return v.Bound(f"{base.key}.{name}", base, name)
        return v.Unknown(f"{base.key}.{name}", scope=base.scope, params=base.params)

    def framework_attribute(self, base: v.Managing, name: str) -> v.Value:
        if frameworks.tells_window(name):
            full = self.run.window_full
            return v.Known(
                True if full is None else full, f"{base.key}.{name}", window=base.window or "the accumulation"
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
        if isinstance(found, v.Function) and isinstance(found.node, s.Def):
            kind = found.outer.program.once(Classes).kind(found.node)
            if kind is MemberKind.STATIC:
                return found
            bound = v.Function(found.node, found.outer, base, f"{base.key}.{name}")
            return self.it.calls.invoke(bound, Arguments(), node) if kind is MemberKind.PROPERTY else bound
        if found is not None:
            return found
        return v.Unknown(f"{base.key}.{name}", params=Params(known=True))

    def _class_attribute(self, base: v.Class, name: str) -> v.Value:
        return self.find_in_class(base, name) or v.Unknown(f"{base.key}.{name}")

    # -- classes of the project

    def find_in_class(self, cls: v.Class | None, name: str, *, behind: s.Class | None = None) -> v.Value | None:
        """A method or class attribute, also of the bases; `behind` one of them: what `super()` finds there."""
        line = self._lineage(cls) if cls is not None else []
        if behind is not None:
            line = line[next((n for n, one in enumerate(line) if one.node.node == behind.node), 0) + 1 :]
        for one in line:
            found = self._own(one, name)
            if found is not None:
                return found
        return None

    def _own(self, cls: v.Class, name: str) -> v.Value | None:
        program = cls.outer.program
        classes = program.once(Classes)
        member = classes.own(cls.node, name)
        whole = program.classes.get(cls.node.name) if member is None and program.path else None
        if whole is not None and whole.node == cls.node.node:
            member = classes.own(whole, name)  # what cannot matter there may matter here: a constant
        stmt = member.stmt if member is not None else None
        if isinstance(stmt, s.Def):
            return v.Function(stmt, cls.outer, None, f"{cls.key}.{name}")
        if not isinstance(stmt, s.Assign):
            return None
        value = self.it.ev(stmt.value)
        if stmt.annotation is not None and isinstance(value, v.Constant):
            if isinstance(value.value, bool):
                return self.flag(name, value.value)
            return None  # a field: whoever makes the object, or a command line, gives it another value
        return self.it.conditions.settle(f"{cls.key}.{name}", value, self.run.frame.scope)

    def _lineage(self, cls: v.Class) -> list[v.Class]:
        """The class, its bases and theirs, each in the frame that it was defined in."""
        found = self._lines.get(id(cls))
        if found is None:
            bases = cls.outer.program.once(Classes).lineage(cls.node)[1:]
            line = [cls, *(self.known.class_of(base, cls.outer) for base in bases)]
            found = self._lines[id(cls)] = cls, line
        return found[1]

    def base_names(self, cls: v.Class | None) -> set[str]:
        """The last names of all bases, of bases in this file too."""
        names = set()
        for one in self._lineage(cls) if cls is not None else ():
            for base in one.node.bases:
                dotted = one.outer.program.dotted(base) or s.render(base)
                names.add(dotted.rpartition(".")[2])
        return names


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
