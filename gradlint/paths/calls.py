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
from gradlint.python.binding import own_statements
from gradlint.python.calls import Arguments, bind, evaluated
from gradlint.python.contexts import switched
from gradlint.python.frame import Frame
from gradlint.python.scope import Scope
from gradlint.records import replace

if TYPE_CHECKING:
    from gradlint.paths.interpreter import Interpreter


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
        self._giving: dict[int, bool] = {}

    def arguments(self, node: s.Call) -> v.Arguments:
        return evaluated(node, self.it.ev, _items, _entries)

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
                return self.invoke(value, a, node)
            case v.External():
                return self.it.api.call_dotted(value.key, a, node)
            case v.Class():
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
            return self.invoke(v.Function(method.node, method.outer, value, f"{value.key}()"), a, node)
        if value.module:
            return self.it.guesses.module_forward(value, "forward", a, node)
        return self.it.guesses.unknown_call(value.key, a, node)

    @staticmethod
    def _is_criterion_elsewhere(value: v.Instance, method: v.Function) -> bool:
        """A class of another file that computes a loss and nothing else: it is looked into once, not at every batch."""
        program = method.outer.program
        if not program.path or value.cls is None or not naming.LOSS.search(value.cls.key):
            return False
        assert isinstance(method.node, s.Def)
        words = program.words_of(method.node)
        return not (words.events or words.contexts)

    # -- functions

    def invoke(self, function: v.Function, given: v.Arguments, node: s.Node) -> v.Value:
        definition = function.node
        if isinstance(definition, s.Lambda):
            return self._invoke_lambda(function, definition, given)
        if len(self.run.stack) >= MAX_DEPTH or id(definition) in self.run.stack or self._is_idle(function, definition):
            return v.Unknown(function.key, called=function.key)
        frame = function.outer.entered(definition)
        self.bind(function, given, frame)
        outer, self.run.frame = self.run.frame, frame
        guards, self.run.guards = self.run.guards, list(self.run.guards)
        self.run.stack.append(id(definition))
        via, self.run.via = self.run.via, (*self.run.via, self.run.site(node, ""))
        contexts, no_grad = len(self.run.contexts), self.run.no_grad
        self._enter_decorators(definition)
        try:
            if definition.generator and self._is_context_manager(definition):
                return self._probe_context(definition, contexts, node)
            self.it.run_body(definition.body)
            if self._gives(definition):
                return v.Unknown(f"{function.key}()", called=function.key)  # `if known: return model`, and nothing else
            return v.Known(None, f"{function.key}()")
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
            self.run.frame = outer

    def _gives(self, definition: s.Def) -> bool:
        """Whether a function gives a value on some of its ways."""
        found = self._giving.get(definition.node)
        if found is None:
            values = (x.value for x in own_statements(definition.body) if isinstance(x, s.Return))
            given = (x for x in values if x is not None and not (isinstance(x, s.Const) and x.value is None))
            found = self._giving[definition.node] = any(True for _ in given)
        return found

    @staticmethod
    def _is_idle(function: v.Function, definition: s.Def) -> bool:
        """A function of another file that only logs; those of the file itself are cut away where they do not matter."""
        program = function.outer.program
        return bool(program.path) and program.once(Branches).idle(definition)

    def _enter_decorators(self, definition: s.Def) -> None:
        """`@torch.autocast(…)` and `@torch.no_grad()` hold for the whole body."""
        for decorator in definition.decorators:
            found = switched(decorator, self.it.program.dotted)
            # whether it autocasts may hang on a value, and a framework's decides itself
            value = self.it.ev(decorator) if found is Switch.AUTOCAST and isinstance(decorator, s.Call) else None
            if found is not None:
                self.run.open(value if isinstance(value, v.Context) else v.Context(s.render(decorator), found))

    def _invoke_lambda(self, function: v.Function, definition: s.Lambda, given: v.Arguments) -> v.Value:
        frame = function.outer.entered(definition)
        self.bind(function, given, frame)
        return self.it.evaluated(definition.body, frame)

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
        leaving = body[position + 1 :], self.run.frame
        many = v.Collection(active)
        return v.Context(definition.name, Switch.OTHER, self.run.site(node), value=many, leaving=leaving)

    def bind(self, function: v.Function, given: v.Arguments, frame: Frame) -> None:
        params = function.node.params
        bound = bind(params, given, function.owner)
        for param in params:
            name = param.name
            if param.star == "*":
                value: v.Value = v.Collection(bound.rest, {}, v.Kind.TUPLE, s.Name(-1, f"*{name}"))
            elif param.star:
                more: list[v.Value] = [v.Unknown(name)] if given.starred else []
                value = v.Collection(more, bound.keywords, v.Kind.DICT, s.Name(-1, f"**{name}"))
            elif name in bound.values:
                value = self.it.conditions.settle(name, bound.values[name], frame.scope)
                if isinstance(value, v.Optimizer | v.Scaler) and not value.key:
                    value = self.it.names.named(value, name, name)  # made in the call itself
                if isinstance(value, v.Unknown) and param.annotation is not None and naming.OPTIMIZER.search(name):
                    value = self._of_own_class(value, self.it.evaluated(param.annotation, function.outer))
            elif param.default is not None and not (given.starred and _is_choice(param.default)):
                value = self._default(name, self.it.evaluated(param.default, function.outer), frame.scope)
            else:
                value = v.Unknown(name, scope=frame.scope)
            frame.names[name] = value

    def _of_own_class(self, value: v.Unknown, cls: v.Value) -> v.Value:
        """`dual_optimizer: DualOptimizer`, a class of the project: no optimizer of torch, and with none in it."""
        if not isinstance(cls, v.Class):
            return value
        bases = self.it.names.base_names(cls)
        if "Optimizer" in bases or any(api.OPTIMIZER_CLASS.match(base) for base in bases):
            return value
        words = self.it.program.words_of(*self.it.program.callees.of_class(cls.node))
        return value if words.events else v.Instance(value.key, cls)

    def _default(self, name: str, value: v.Value, scope: Scope) -> v.Value:
        """A default: others may pass the opposite of a flag."""
        if isinstance(value, v.Constant) and isinstance(value.value, bool):
            return self.it.names.flag(name, value.value, scope)
        value = self.it.conditions.settle(name, value, scope)
        if isinstance(value, v.Constant) and isinstance(value.value, int | float):
            value = replace(v.known(value), made_up=True, real=None, over="")
        return value

    # -- classes

    def super_call(self, name: str, node: s.Call) -> v.Value:
        a = self.arguments(node)
        params = self.run.frame.scope.params
        me = self.run.frame.find(params[0].name) if params else None
        if isinstance(me, v.Instance) and me.cls is not None:
            found = self.it.names.find_in_class(me.cls, name, behind=self.run.frame.scope.cls)
            if isinstance(found, v.Function):
                return self.invoke(v.Function(found.node, found.outer, me, found.key), a, node)
        merged = tensors.merge(a.every, s.render(node), Norm.RAW) if name in ("forward", "__call__") else None
        if merged is not None:
            return merged
        if name != "__init__" and naming.TOUCHES_GRADIENTS.search(name):
            self.it.gradients.opaque(None, node)
        return v.Unknown(s.render(node), called=name)

    def instantiate(self, cls: v.Class, a: v.Arguments, node: s.Call) -> v.Value:
        bases = self.it.names.base_names(cls)
        if "Optimizer" in bases or any(api.OPTIMIZER_CLASS.match(b) for b in bases):
            return self.it.api.make_optimizer(cls.key, a, node)
        if any("Sched" in b or api.SCHEDULER_CLASS.match(b) or b == "_LRScheduler" for b in bases):
            found = next((o for o in (self.run.optimizer_for(x) for x in a.every) if o), None)
            torch = any(api.SCHEDULER_CLASS.match(b) or b in ("_LRScheduler", "LRScheduler") for b in bases)
            return v.Scheduler("", found.ref.id if found else None, torch and not self._steps_in_its_own_way(cls))
        module = is_module(bases)
        instance = v.Instance("", cls, module)
        words = self.it.program.words_of(*self.it.program.callees.of_class(cls.node))
        if module and not (words.events or words.contexts):
            for value in a.every:
                self.it.gradients.use_up(value, node)
            instance.made_with = a
            return instance
        instance.key = self.run.fresh(cls.key)
        init = self.it.names.find_in_class(cls, "__init__")
        if isinstance(init, v.Function):
            self.invoke(v.Function(init.node, init.outer, instance, init.key), a, node)
        return instance

    def _steps_in_its_own_way(self, cls: v.Class) -> bool:
        """A scheduler whose class has a `step` that is not built on torch's: when it is called is its own affair."""
        step = self.it.names.find_in_class(cls, "step")
        if not isinstance(step, v.Function) or not isinstance(step.node, s.Def):
            return False
        return not {"super", "step"} <= self.it.program.owner(step.node.node).own_words(step.node.body).called


def _is_choice(default: s.Expr) -> bool:
    """A default by name: among arguments that are not known there may be another one."""
    return isinstance(default, s.Const) and isinstance(default.value, str)


def _items(value: v.Value) -> list[v.Value] | None:
    return value.each if isinstance(value, v.Collection) else None


def _entries(value: v.Value) -> dict[str, v.Value] | None:
    return value.entries if isinstance(value, v.Collection) and not value.items else None


def is_module(bases: set[str]) -> bool:
    return any(b.endswith(("Module", "Model", "PreTrainedModel", "Net", "Loss")) for b in bases)


def _yields(stmt: s.Stmt) -> bool:
    return any(isinstance(p, s.Yield) for x in s.walk_stmts([stmt]) for e in s.expressions(x) for p in s.walk_expr(e))
