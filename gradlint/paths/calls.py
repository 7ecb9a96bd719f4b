"""Dispatches calls on what is called, and follows them into the functions and classes of the file itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.events import Norm
from gradlint.knowledge import naming
from gradlint.knowledge import torch_api as api
from gradlint.knowledge.rows import Switch
from gradlint.paths import tensors
from gradlint.paths import values as v
from gradlint.paths.branches import Branches
from gradlint.paths.run import MAX_DEPTH
from gradlint.python import syntax as s
from gradlint.python.calls import Arguments, bind
from gradlint.python.contexts import switched
from gradlint.python.scope import Scope, Scopes

if TYPE_CHECKING:
    from gradlint.paths.interpreter import Interpreter


#: how many bases of bases are looked at
_DEEPEST_BASE = 6
_CONTEXT_MANAGERS = ("contextmanager", "asynccontextmanager")


class Unwound(Exception):  # noqa: N818 - control flow, not an error
    """Control leaves the statements that are running."""


class Raised(Unwound):
    """A `raise` or an exit: usually it does not come to that, so the caller goes on."""


class Returned(Unwound):
    """A `return` unwinds to its call."""

    def __init__(self, value: v.Value) -> None:
        self.value = value


class Calls:
    """The way in for every call: arguments to parameters, bodies, decorators, constructors."""

    def __init__(self, it: Interpreter) -> None:
        self.it = it
        self.run = it.run

    def arguments(self, node: s.Call) -> v.Arguments:
        return Arguments(self.it.expressions.spread(node.args), {k: self.it.ev(x) for k, x in node.kwargs.items()})

    def call(self, node: s.Call) -> v.Value:
        self.run.spend()
        func = node.func
        if isinstance(func, s.Attr):
            if isinstance(func.base, s.Call) and s.render(func.base.func) == "super":
                return self.super_call(func.name, node)
            base = self.it.ev(func.base)
            a = self.arguments(node)
            result = self.it.methods.method(base, func, a, node)
            if result is not None:
                return result
            value = self.it.names.attribute(base, func.name, func)
            return self.call_value(value, a, node)
        value = self.it.ev(func)
        return self.call_value(value, self.arguments(node), node)

    def call_value(self, value: v.Value, a: v.Arguments, node: s.Call) -> v.Value:
        match value:
            case v.Function():
                return self.invoke(value, a.args, a.kwargs, node)
            case v.Dotted():
                return self.it.api.call_dotted(value.key, a, node)
            case v.ClassValue():
                return self.instantiate(value, a, node)
            case v.Partial():
                joined = Arguments([*value.args, *a.args], {**value.kwargs, **a.kwargs})
                return self.call_value(value.func, joined, node)
            case v.Bound():
                func = s.Attr(node.func.node, s.Name(node.func.node, value.base.key), value.name)
                return self.it.methods.method(value.base, func, a, node) or self.it.guesses.unknown_call(
                    value.key, a, node
                )
            case v.Instance():
                return self._call_instance(value, a, node)
            case v.Model():
                return self.it.gradients.forward(value, a, node)
            case v.Managing():
                return self.it.gradients.forward(value.model or value, a, node)
            case v.Context():
                return value
            case v.Scaler():
                return self.it.guesses.wrapped_scaler(a, node)
            case v.Unknown():
                return self.it.guesses.call_by_name(value, a, node)
            case v.Tensor() if value.unseen:  # a criterion that was made elsewhere
                return self.it.guesses.criterion(naming.last(value.unseen), a, node, unseen=value.unseen)
            case _:
                return self.it.guesses.unknown_call(value.key, a, node)

    def _call_instance(self, value: v.Instance, a: v.Arguments, node: s.Call) -> v.Value:
        method = self.it.names.find_in_class(value.cls, "__call__")
        if isinstance(method, v.Function):
            if self._is_criterion_elsewhere(value, method):
                return self.it.guesses.module_forward(value, "__call__", a, node)
            bound = v.Function(f"{value.key}()", method.node, method.env, value, method.cls)
            return self.invoke(bound, a.args, a.kwargs, node)
        if value.module:
            return self.it.guesses.module_forward(value, "forward", a, node)
        return self.it.guesses.unknown_call(value.key, a, node)

    @staticmethod
    def _is_criterion_elsewhere(value: v.Instance, method: v.Function) -> bool:
        """A class of another file that computes a loss and nothing else: it is looked into once, not at every batch."""
        program = method.env.program if method.env is not None else None
        if program is None or not program.path or value.cls is None or not naming.LOSS.search(value.cls.key):
            return False
        assert isinstance(method.node, s.Def)
        words = program.words_of(method.node)
        return not (words.events or words.contexts)

    # -- functions

    def invoke(self, function: v.Function, args: list[v.Value], kwargs: dict[str, v.Value], node: s.Node) -> v.Value:
        definition = function.node
        if isinstance(definition, s.Lambda):
            return self._invoke_lambda(function, definition, args)
        if definition is None or len(self.run.stack) >= MAX_DEPTH or id(definition) in self.run.stack:
            return v.Unknown(function.key, called=function.key)
        if self._is_idle(function, definition):
            return v.Unknown(function.key, called=function.key)
        env = self.frame(function, definition)
        self.bind(definition, function, args, kwargs, env)
        outer, self.run.env = self.run.env, env
        guards, self.run.guards = self.run.guards, list(self.run.guards)
        self.run.stack.append(id(definition))
        via, self.run.via = self.run.via, (*self.run.via, self.run.site(node, ""))
        contexts, no_grad = len(self.run.contexts), self.run.no_grad
        self._enter_decorators(definition)
        try:
            if definition.generator and self._is_context_manager(definition):
                return self._probe_context(definition, contexts, node)
            self.it.run_body(definition.body)
            return v.Known(f"{function.key}()", None)
        except Returned as result:
            return result.value
        except Raised:
            return v.Unknown(f"{function.key}()", called=function.key)
        finally:
            if self.run.budget >= 0:  # else it is broken off, and its end was not seen
                self.run.reached.add(id(definition))
                if self.it.program.path:
                    self.run.reached_elsewhere.add((self.it.program.path, definition.node))
            self.run.close(contexts, no_grad=no_grad)
            self.run.stack.pop()
            self.run.via = via
            self.run.guards = guards
            self.run.env = outer

    def frame(self, function: v.Function, definition: s.Def) -> v.Env:
        """The names of one call of a function."""
        outer = function.env or self.run.module
        return outer.inner(outer.program.once(Scopes).of_def.get(definition.node))

    @staticmethod
    def _is_idle(function: v.Function, definition: s.Def) -> bool:
        """A function of another file that only logs; those of the file itself are cut away where they do not matter."""
        program = function.env.program if function.env is not None else None
        return program is not None and bool(program.path) and program.once(Branches).idle(definition)

    def _enter_decorators(self, definition: s.Def) -> None:
        """`@torch.autocast(…)` and `@torch.no_grad()` hold for the whole body."""
        for decorator in definition.decorators:
            found = switched(decorator, self.it.program.dotted)
            # whether it autocasts may hang on a value, and a framework's decides itself
            value = self.it.ev(decorator) if found is Switch.AUTOCAST and isinstance(decorator, s.Call) else None
            if found is not None:
                self.run.open(value if isinstance(value, v.Context) else v.Context(s.render(decorator), found))

    def _invoke_lambda(self, function: v.Function, definition: s.Lambda, args: list[v.Value]) -> v.Value:
        env = (function.env or self.run.module).inner()
        for param, value in zip(definition.params, args, strict=False):
            env.names[param.name] = value
        outer, self.run.env = self.run.env, env
        try:
            return self.it.ev(definition.body)
        finally:
            self.run.env = outer

    def _is_context_manager(self, definition: s.Def) -> bool:
        named = (self.it.program.dotted(decorator) for decorator in definition.decorators)
        return any(dotted.rpartition(".")[2] in _CONTEXT_MANAGERS for dotted in named)

    def _probe_context(self, definition: s.Def, contexts: int, node: s.Node) -> v.Value:
        """A @contextmanager: the contexts that are active at its yield are what it stands for."""
        self.run.yielded = None
        body = definition.body
        position = next((n for n, stmt in enumerate(body) if _yields(stmt)), len(body))
        self.it.run_body(body[: position + 1])
        active: list[v.Value] = list((self.run.yielded or [])[contexts:])
        self.run.yielded = None
        leaving = body[position + 1 :], self.run.env
        many = v.Collection("", active)
        return v.Context(definition.name, Switch.OTHER, self.run.site(node), value=many, leaving=leaving)

    def bind(
        self, definition: s.Def, function: v.Function, args: list[v.Value], kwargs: dict[str, v.Value], env: v.Env
    ) -> None:
        params = list(definition.params)
        if function.owner is not None and params and not params[0].star:
            env.names[params.pop(0).name] = function.owner
        bound = bind(params, Arguments(args, kwargs))
        for param in params:
            name = param.name
            if param.star == "*":
                env.names[name] = v.Collection(f"*{name}", bound.rest)
            elif param.star:
                named = {f'"{k}"': x for k, x in bound.keywords.items()}
                env.names[name] = v.Collection(f"**{name}", [], named, s.Display.DICT)
            elif name in bound.values:
                env.names[name] = self.it.conditions.settle(name, bound.values[name], env.scope)
            elif param.default is not None:
                env.names[name] = self._default(name, self.it.ev(param.default), env.scope)
            else:
                env.names[name] = v.Unknown(name, scope=env.scope)

    def _default(self, name: str, value: v.Value, scope: Scope) -> v.Value:
        """A default: others may pass the opposite of a flag."""
        if isinstance(value, v.Known) and isinstance(value.value, bool):
            return self.it.names.flag(name, value.value, scope)
        value = self.it.conditions.settle(name, value, scope)
        if isinstance(value, v.Known) and isinstance(value.value, int | float):
            value = v.Known(value.key, value.value, value.exact, value.counter, value.window, value.modulo, True)
        return value

    # -- classes

    def super_call(self, name: str, node: s.Call) -> v.Value:
        a = self.arguments(node)
        me = self.run.env.find("self")
        if isinstance(me, v.Instance) and me.cls is not None:
            mine = self._standing_in(me.cls) or me.cls
            for base in mine.node.bases if mine.node is not None else ():
                cls = self.it.names.base_class(base, mine)
                found = self.it.names.find_in_class(cls, name)
                if isinstance(found, v.Function):
                    return self.invoke(
                        v.Function(found.key, found.node, found.env, me, found.cls), a.args, a.kwargs, node
                    )
        merged = tensors.merge(a.every, s.render(node), Norm.RAW) if name in ("forward", "__call__") else None
        if merged is not None:
            return merged
        if name != "__init__" and naming.TOUCHES_GRADIENTS.search(name):
            self.it.gradients.opaque(None, node)
        return v.Unknown(s.render(node), called=name)

    def _standing_in(self, cls: v.ClassValue | None, depth: int = 0) -> v.ClassValue | None:
        """The class, of these and their bases, whose method is running: what `super()` begins behind."""
        standing = self.run.env.scope.cls
        if cls is None or cls.node is None or standing is None or depth > _DEEPEST_BASE:
            return None
        if cls.node.node == standing.node:
            return cls
        bases = (self.it.names.base_class(base, cls) for base in cls.node.bases)
        found = (self._standing_in(base, depth + 1) for base in bases)
        return next((x for x in found if x is not None), None)

    def instantiate(self, cls: v.ClassValue, a: v.Arguments, node: s.Call) -> v.Value:
        bases = self.it.names.base_names(cls)
        if "Optimizer" in bases or any(api.OPTIMIZER_CLASS.match(b) for b in bases):
            return self.it.api.make_optimizer(cls.key, a, node)
        if any("Sched" in b or api.SCHEDULER_CLASS.match(b) or b == "_LRScheduler" for b in bases):
            found = next((o for o in (self.run.optimizer_for(x) for x in a.every) if o), None)
            torch = any(api.SCHEDULER_CLASS.match(b) or b in ("_LRScheduler", "LRScheduler") for b in bases)
            return v.Scheduler("", found.ref.id if found else None, torch and not self._steps_in_its_own_way(cls))
        module = is_module(bases)
        instance = v.Instance("", cls, module)
        own = self.it.program.callees.of_class(cls.node) if cls.node is not None else ()
        words = self.it.program.words_of(*own)
        if module and not (words.events or words.contexts):
            for value in a.every:
                self.it.gradients.use_up(value, node)
            instance.made_with = (a.args, a.kwargs)
            return instance
        instance.key = self.run.fresh(cls.key)
        init = self.it.names.find_in_class(cls, "__init__")
        if isinstance(init, v.Function):
            self.invoke(v.Function(init.key, init.node, init.env, instance, init.cls), a.args, a.kwargs, node)
        return instance

    def _steps_in_its_own_way(self, cls: v.ClassValue) -> bool:
        """A scheduler whose class has a `step` that is not built on torch's: when it is called is its own affair."""
        step = self.it.names.find_in_class(cls, "step")
        if not isinstance(step, v.Function) or not isinstance(step.node, s.Def):
            return False
        return not {"super", "step"} <= self.it.program.owner(step.node.node).own_words(step.node.body).called


def is_module(bases: set[str]) -> bool:
    return any(b.endswith(("Module", "Model", "PreTrainedModel", "Net", "Loss")) for b in bases)


def _yields(stmt: s.Stmt) -> bool:
    return any(isinstance(p, s.Yield) for x in s.walk_stmts([stmt]) for e in s.expressions(x) for p in s.walk_expr(e))
