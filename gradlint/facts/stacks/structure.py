"""Builds and runs the models of a file on paper, to see which layers a gradient passes one after the other.

Lists of layers, loops with a known count, `nn.Sequential` in all its spellings and the `forward` of every class are
followed. What is not understood ends a stack, so that a chain is never longer than it is in truth.
"""

from __future__ import annotations

from gradlint.facts.stacks.folding import builtin, items_of
from gradlint.facts.stacks.model_code import Frame, ModelCode, Names, TooMuch
from gradlint.facts.stacks.wiring import (
    END,
    FRESH,
    SETTING,
    UNKNOWN,
    Instance,
    Known,
    Leaf,
    Named,
    Sequential,
    Setting,
    Several,
    Tensor,
    Unknown,
    Value,
)
from gradlint.knowledge.layers import ASIDE, MERGES, SATURATING, function_role, method_role, module_role
from gradlint.knowledge.torch_api import MODULE_PASSTHROUGH
from gradlint.python import syntax as s
from gradlint.python.calls import bind, evaluated
from gradlint.python.classes import Classes
from gradlint.python.module import Program
from gradlint.python.written import called
from gradlint.records import replace
from gradlint.subjects import Layer, Stack

#: calls inside of calls
_DEPTH = 12


def saturating_stacks(program: Program) -> list[Stack]:
    """The saturating activations that stand in a row, in every model of the file."""
    return Structure(program).stacks() if program.all_words.seen & _saturating_words(program) else []


class Structure(ModelCode):
    """The models of one file."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.classes = program.once(Classes)
        self._inside: list[s.Def] = []
        self._wanted = _with_saturating(program)

    def stacks(self) -> list[Stack]:
        try:
            self.run(self.program.body, Frame(self.globals))
            for stmt in self.program.statements():
                if isinstance(stmt, s.Class) and stmt.name in self._wanted:
                    self._model(stmt)
                elif isinstance(stmt, s.Def) and stmt.name in self._wanted and self._builds(stmt):
                    self._enter(stmt, self._defaults(stmt.params, self._given(stmt.name, stmt.params)), None)
        except (TooMuch, RecursionError):
            return []
        path = self.program.path
        return [replace(x, hidden=tuple(replace(y, path=path) for y in x.hidden)) for x in self.found.stacks()]

    def _builds(self, function: s.Def) -> bool:
        """A function (or a method) that puts a stack together, whoever calls it."""
        return function.name != "__init__" and "Sequential" in self.program.own_words(function.body).seen

    # -- classes

    def _model(self, cls: s.Class) -> None:
        """Builds a class as the file does, and runs its `forward`."""
        init, forward = self.classes.method(cls, "__init__"), self.classes.method(cls, "forward")
        params = init.params if init is not None else []
        made = self._instance(cls, self._defaults(params[1:], self._given(cls.name, params)))
        if isinstance(made, Instance) and forward is not None:
            self._enter(forward, {**dict(made.attributes), **_inputs(forward)}, cls, forward=True)

    def _instance(self, cls: s.Class, names: Names) -> Value:
        init = self.classes.method(cls, "__init__")
        frame = Frame({**names, "self": UNKNOWN}, cls)
        if init is not None:
            self._follow(init, frame)
        kept = _of_self(frame)
        if isinstance(kept["self"], Sequential):
            return kept["self"]
        return Instance(cls, tuple(sorted(kept.items(), key=lambda item: item[0])))

    def _given(self, name: str, params: list[s.Param]) -> Names:
        """What the file itself says where it calls something; where it says different things, nothing is known."""
        given: Names = {}
        params = [param for param in params if param.name != "self"]
        for call in self.program.calls():
            if called(call) != name:
                continue
            if call.starred:
                return {param.name: SETTING for param in params}
            said = self._bound(params, call, Frame({}))
            for param in params:
                value = said.get(param.name) or self._default(param)
                if given.get(param.name, value) != value or not isinstance(value, Known | Several):
                    value = SETTING
                given[param.name] = value
        return given

    def _defaults(self, params: list[s.Param], given: Names) -> Names:
        return {p.name: given.get(p.name) or self._default(p) for p in params}

    def _default(self, param: s.Param) -> Value:
        """A number is what the code says. A switch, a name or an activation is left to the caller."""
        value = self.expr(param.default, Frame({})) if param.default is not None else SETTING
        items = value.items if isinstance(value, Several) else (value,)
        plain = all(isinstance(x, Known) and type(x.value) in (int, float) for x in items)
        return value if plain else SETTING

    def _bound(self, params: list[s.Param], call: s.Call, frame: Frame) -> Names:
        """The arguments of a call by the names of the parameters."""
        bound = bind(params, evaluated(call, lambda x: self.expr(x, frame), items_of, lambda x: None))
        rest = {p.name: Several(tuple(bound.rest)) for p in params if p.star == "*"}
        return {**bound.values, **rest}

    # -- functions

    def _enter(self, function: s.Def, names: Names, cls: s.Class | None, *, forward: bool = False) -> Frame:
        frame = Frame(names, cls, forward=forward)
        self._follow(function, frame)
        return frame

    def _follow(self, function: s.Def, frame: Frame) -> None:
        # how often a function calls itself is not known
        if len(self._inside) >= _DEPTH or function.generator or any(function is x for x in self._inside):
            frame.returned.append(UNKNOWN)
            return
        self._inside.append(function)
        try:
            self.run(function.body, frame)
        finally:
            self._inside.pop()

    # -- calls

    def call(self, call: s.Call, frame: Frame) -> Value:
        if isinstance(call.func, s.Attr):
            known = self._call_method(call, call.func, frame)
            if known is not None:
                return known
        value = self.expr(call.func, frame)
        if isinstance(value, Named):
            return self._call_torch(value, call, frame)
        if not isinstance(value, Unknown):
            result = self._apply(value, call, frame)
            # outside of a model, what one gives to another (a generator to its critic) is no part of the same stack
            return FRESH if isinstance(result, Tensor) and not frame.forward else result
        return self._call_own(s.render(call.func), call, frame)

    def _call_own(self, name: str, call: s.Call, frame: Frame) -> Value:
        """A class or a function of the file, or one of Python's own."""
        if name in self.program.classes and not call.starred:
            cls = self.program.classes[name]
            init = self.classes.method(cls, "__init__")
            if not self._is_model(cls):
                return UNKNOWN
            bound = self._bound(init.params[1:], call, frame) if init is not None else {}
            return self._instance(cls, {**self._defaults(init.params[1:] if init is not None else [], {}), **bound})
        functions = self.program.functions.get(name, [])
        if len(functions) == 1 and not call.starred and not functions[0].decorators:
            names = {**self._defaults(functions[0].params, {}), **self._bound(functions[0].params, call, frame)}
            return self._enter(functions[0], names, None, forward=frame.forward).result
        args = list(self.spread(call.args, frame))
        known = builtin(name, args) if not call.kwargs else None
        if known is not None:
            return known
        return FRESH if any(isinstance(arg, Tensor) for arg in args) else UNKNOWN

    def _is_model(self, cls: s.Class) -> bool:
        return self.classes.method(cls, "forward") is not None or _is_sequential(cls)

    def _call_method(self, call: s.Call, func: s.Attr, frame: Frame) -> Value | None:
        """A method of a module, a list or a tensor; None if it is something else that is called."""
        if s.render(func.base) == "super()":
            return self._call_super(call, func.name, frame)
        own = (
            self.classes.method(frame.cls, func.name)
            if frame.cls is not None and s.render(func.base) == "self"
            else None
        )
        if own is not None:
            return self._call_self(own, call, frame)
        if s.render(func) in frame.names:
            return None
        base = self.expr(func.base, frame)
        match base:
            case Tensor():
                return self._tensor_method(base, call, func, frame)
            case Several() | Sequential():
                return self._list_method(base, call, func, frame)
            case Leaf() if func.name in MODULE_PASSTHROUGH:
                return base
            case Instance():
                if func.name in MODULE_PASSTHROUGH:
                    return base
                method = self.classes.method(base.cls, func.name)
                if method is None or method.decorators or call.starred:
                    return None
                names = {**dict(base.attributes), **self._bound(method.params[1:], call, frame)}
                return self._enter(method, names, base.cls, forward=True).result
            case Setting() | Known():
                return SETTING
            case Unknown() if s.render(func.base) == "self" and func.name in ("add_module", "register_module"):
                values = list(self.spread(call.args, frame))
                if len(values) == 2 and isinstance(values[0], Known) and isinstance(values[0].value, str):
                    frame.names["self." + values[0].value] = values[1]
                return UNKNOWN
            case _:
                return None

    def _call_super(self, call: s.Call, name: str, frame: Frame) -> Value:
        if name == "__init__" and frame.cls is not None:
            if _is_sequential(frame.cls):
                frame.names["self"] = self._sequential(call, frame)
            found = self.classes.member(frame.cls, "__init__", behind=frame.cls)
            init = found.function if found is not None else None
            if init is not None:
                self._call_self(init, call, frame)
        return UNKNOWN

    def _call_self(self, method: s.Def, call: s.Call, frame: Frame) -> Value:
        """What the method sets on the object is set for its caller, too."""
        if method.decorators or call.starred:
            return FRESH
        own = _of_self(frame)
        params = method.params[1:]
        names = {**own, **self._defaults(params, {}), **self._bound(params, call, frame)}
        inner = self._enter(method, names, frame.cls, forward=frame.forward)
        frame.names.update(_of_self(inner))
        return inner.result

    def _tensor_method(self, base: Tensor, call: s.Call, func: s.Attr, frame: Frame) -> Value:
        if func.name in ASIDE:
            return SETTING
        if func.name.rstrip("_") in MERGES:
            return self.merge([base, *self.spread(call.args, frame)], frame)
        role = method_role(func.name)
        return self.found.apply(Layer(role, func.node, func.node, SATURATING.get(func.name, "")), base)

    def _list_method(self, base: Several | Sequential, call: s.Call, func: s.Attr, frame: Frame) -> Value | None:
        values = list(self.spread(call.args, frame))
        items = base.items if isinstance(base, Several) else base.parts
        if func.name in ("append", "add_module", "register_module") and values:
            items = (*items, values[-1])
        elif func.name == "extend" and len(values) == 1:
            items = (*items, *(items_of(values[0]) or (END,)))
        elif func.name == "children":
            return Several(items)
        elif func.name in MODULE_PASSTHROUGH:
            return base
        else:
            items = (END,)
        new = Several(items) if isinstance(base, Several) else Sequential(items)
        self.store(func.base, new, frame)
        if isinstance(new, Sequential):
            self._through(new, FRESH)
        return new

    # -- torch

    def _call_torch(self, named: Named, call: s.Call, frame: Frame) -> Value:
        name = named.dotted.rpartition(".")[2]
        if named.dotted.endswith("nn.Sequential"):
            return self._sequential(call, frame)
        args = list(self.spread(call.args, frame))
        if name == "ModuleList":
            return Several(items_of(args[0]) or (END,)) if args else Several(())
        if named.dotted == "torch.utils.checkpoint.checkpoint" and len(args) > 1:
            return self._through(args[0], args[1])
        role = module_role(named.dotted)
        if role is not None:
            return Leaf(Layer(role, named.node, named.node, SATURATING.get(name, "")))
        if named.dotted.startswith("torch.nn.utils."):
            return END
        role = function_role(named.dotted)
        if role is None:
            return UNKNOWN
        if name in MERGES:
            parts = items_of(args[0]) if args and isinstance(args[0], Several) else None
            return self.merge(args if parts is None else list(parts), frame)
        given = [*args, *(self.expr(v, frame) for v in call.kwargs.values())]
        layer = Layer(role, named.node, call.func.node, SATURATING.get(name, ""))
        return self.found.apply(layer, given[0] if given else UNKNOWN)

    def _sequential(self, call: s.Call, frame: Frame) -> Value:
        parts = tuple(self.spread(call.args, frame))
        if len(parts) == 1 and isinstance(parts[0], Several):
            parts = parts[0].items  # an OrderedDict
        made = Sequential(parts if not call.kwargs else (END,))
        self._through(made, FRESH)
        return made

    def _apply(self, module: Value, call: s.Call, frame: Frame) -> Value:
        if isinstance(module, Instance):
            forward = self.classes.method(module.cls, "forward")
            if forward is None or call.starred:
                return FRESH
            names = {**dict(module.attributes), **_inputs(forward), **self._bound(forward.params[1:], call, frame)}
            return self._enter(forward, names, module.cls, forward=True).result
        args = [*self.spread(call.args, frame), *(self.expr(v, frame) for v in call.kwargs.values())]
        return self._through(module, args[0] if args else UNKNOWN, call.func.node)

    def _through(self, module: Value, tensor: Value, used: int | None = None) -> Value:
        """What comes out of a module; what is no module that is known gives a tensor with nothing behind it."""
        match module:
            case Leaf():
                layer = module.layer if used is None else replace(module.layer, used=used)
                return self.found.apply(layer, tensor)
            case Sequential():
                for part in module.parts:
                    tensor = self._through(part, tensor)
                return tensor
            case Instance():
                forward = self.classes.method(module.cls, "forward")
                if forward is None:
                    return FRESH
                names = {**dict(module.attributes), **_inputs(forward)}
                names.update({p.name: tensor for p in forward.params[1:2]})
                return self._enter(forward, names, module.cls, forward=True).result
            case _:
                return FRESH


def _of_self(frame: Frame) -> Names:
    """The object that a method belongs to, and what is set on it."""
    return {name: value for name, value in frame.names.items() if name == "self" or name.startswith("self.")}


def _is_sequential(cls: s.Class) -> bool:
    return any(s.render(base).endswith("Sequential") for base in cls.bases)


def _inputs(forward: s.Def) -> Names:
    """Tensors, but for switches; what may be None may be anything."""
    found: Names = {}
    for param in forward.params[1:]:
        default = param.default
        if param.star or (isinstance(default, s.Const) and default.value is None):
            found[param.name] = UNKNOWN
        else:
            found[param.name] = SETTING if isinstance(default, s.Const) else FRESH
    return found


def _saturating_words(program: Program) -> set[str]:
    """What the file calls them: `from torch import tanh as squash`."""
    return {*SATURATING} | {
        local
        for local, dotted in program.imports.items()
        if dotted.startswith("torch") and dotted.rpartition(".")[2] in SATURATING
    }


def _with_saturating(program: Program) -> set[str]:
    """The functions and classes with a saturating activation in them, and those that use one of these."""
    seen: dict[str, set[str]] = {}
    for stmt in program.statements():
        if isinstance(stmt, s.Def | s.Class):
            seen.setdefault(stmt.name, set()).update(program.own_words(stmt.body).seen)
    activations = _saturating_words(program)
    wanted = {name for name, words in seen.items() if words & activations}
    while True:
        more = {name for name, words in seen.items() if name not in wanted and words & wanted}
        if not more:
            return wanted
        wanted |= more
