"""Looks names and attributes up: in scopes, objects, classes and their bases, wrapped models."""

from __future__ import annotations

from gradlint.events import Params
from gradlint.knowledge import frameworks, naming
from gradlint.knowledge.torch_api import INNER_OPTIMIZER, USUAL_NAMES
from gradlint.paths import values as v
from gradlint.paths.binding import Binding
from gradlint.paths.run import owner
from gradlint.python import syntax as s

_BUILTINS = {
    "len", "range", "enumerate", "zip", "list", "tuple", "filter", "map", "iter", "next", "sum", "max", "min", "int",
    "bool", "float", "hasattr", "getattr", "setattr", "isinstance", "super", "print", "sorted", "reversed", "set",
    "dict", "abs", "round", "any", "all", "str", "type", "callable", "exit", "quit", "vars", "id", "repr", "open",
    "input", "tqdm", "trange",
}  # fmt: skip


class Attributes(Binding):
    """What a name stands for."""

    def invoke(self, function: v.Function, args: list[v.Value], kwargs: dict[str, v.Value], node: s.Node) -> v.Value:
        raise NotImplementedError("abstract: see Invoke")

    def look_up(self, name: str) -> v.Value:
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
        if frameworks.tells_window(name) and frameworks.named(naming.last(base.key)) is not None:
            return self.framework_attribute(v.Managing(base.key), name)
        if name == "grad" and naming.last(base.key) not in ("x", "input", "inputs", "data", "img", "image", "images"):
            # `model.head.weight.grad` beside `model.head.parameters()`
            known = any(base.key.startswith(f"{owned}.") for owned in self.program.owners)
            return v.Grad(f"{base.key}.grad", Params(frozenset({base.key}), True) if known else Params())
        if name in ("no_sync", "zero_grad", "backward", "unscale_") or (
            name == "step" and naming.OPTIMIZER.search(naming.last(base.key))
        ):
            return v.Bound(f"{base.key}.{name}", base, name)
        return v.Unknown(f"{base.key}.{name}", params=base.params)

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

    # -- classes of this file

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
            found = self.base_class(base, cls)
            if found is not None:
                value = self.find_in_class(found, name, depth + 1)
                if value is not None:
                    return value
        return None

    def base_class(self, base: s.Expr, cls: v.ClassValue) -> v.ClassValue | None:
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
            found = self.base_class(base, cls)
            if found is not None:
                names |= self.base_names(found, depth + 1)
        return names
