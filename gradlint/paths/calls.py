"""Dispatches calls on what is called, and follows them into the functions and classes of the file itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.knowledge import naming
from gradlint.knowledge import torch_api as api
from gradlint.knowledge.rows import Switch
from gradlint.paths import values as v
from gradlint.paths.branches import Branches
from gradlint.paths.groups import handed_out
from gradlint.paths.run import Guard
from gradlint.python import syntax as s
from gradlint.python.binding import own_statements
from gradlint.python.contexts import switched
from gradlint.python.frame import Frame
from gradlint.python.scope import Scope
from gradlint.records import replace

if TYPE_CHECKING:
    from gradlint.paths.interpreter import Interpreter
    from gradlint.python.evaluate import Evaluator


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
    """The way in for every call: objects are made, functions followed, or taken for what they are."""

    def __init__(self, it: Interpreter) -> None:
        self.it = it
        self.run = it.run
        self._giving: dict[int, bool] = {}

    def call(self, callee: v.Value, node: s.Call, given: v.Arguments) -> v.Value:
        """What is no function of the project, or is not gone into."""
        match callee:
            case v.Function():
                return v.Unknown(callee.key, called=callee.key)
            case v.External():
                return self.it.api.call_dotted(callee.key, given, node)
            case v.Class():
                return self.instantiate(callee, given, node)
            case v.Instance() if callee.module:
                return self.it.guesses.module_forward(callee, "forward", given, node)
            case v.Model():
                return self.it.gradients.forward(callee, given, node)
            case v.Managing():
                return self.it.gradients.forward(callee.model or callee, given, node)
            case v.Context():
                return callee
            case v.Scaler():
                return self.it.guesses.wrapped_scaler(given, node)
            case v.Unknown():
                return self.it.guesses.call_by_name(callee, given, node)
            case v.Tensor() if callee.unseen:  # a criterion that was made elsewhere
                return self.it.guesses.criterion(naming.last(callee.unseen), given, node, unseen=callee.unseen)
            case _:
                return self.it.guesses.unknown_call(callee.key, given, node)

    # -- functions

    def follow(self, ev: Evaluator, function: v.Function, node: s.Node, given: v.Arguments) -> v.Value:
        if isinstance(node, s.Call) and isinstance(function.owner, v.Instance) and not _through_super(node):
            forward = self._as_module(function.owner, function, given, node)
            if forward is not None:
                return forward
        if isinstance(function.node, s.Def) and self._is_idle(function, function.node):
            return v.Unknown(function.key, called=function.key)
        return ev.enter(function, node, given)

    def _as_module(self, me: v.Instance, function: v.Function, given: v.Arguments, node: s.Call) -> v.Value | None:
        """What a method of a module computes, if that is all it does."""
        if not isinstance(function.node, s.Def):
            return None
        name = function.node.name
        if name == "__call__":
            elsewhere = self._is_criterion_elsewhere(me, function)
            return self.it.guesses.module_forward(me, name, given, node) if elsewhere else None
        if not me.module:
            return None
        if name == "forward":
            return self.it.guesses.module_forward(me, name, given, node)
        words = self.it.program.words_of(function.node)
        if words.events or words.contexts or words.called & api.PARAMETER_METHODS or self.it.core.frame.no_grad:
            return None
        computed = self.it.gradients.forward(me, given, node)
        return self.it.guesses.normalised_inside(me, name, given, computed, node)

    @staticmethod
    def _is_criterion_elsewhere(value: v.Instance, method: v.Function) -> bool:
        """A class of another file that computes a loss and nothing else: it is looked into once, not at every batch."""
        program = method.outer.program
        if not program.path or not naming.LOSS.search(value.cls.key):
            return False
        assert isinstance(method.node, s.Def)
        words = program.words_of(method.node)
        return not (words.events or words.contexts)

    def returned(self, ev: Evaluator, function: v.Function, node: s.Node) -> v.Value:
        definition = function.node
        assert isinstance(definition, s.Def)
        guards, self.run.guards = self.run.guards, list(self.run.guards)
        via, self.run.via = self.run.via, (*self.run.via, self.run.site(node, ""))
        contexts = len(self.run.contexts)
        self._enter_decorators(definition)
        try:
            if definition.generator and self._is_context_manager(definition):
                return self._probe_context(definition, contexts, node)
            self.it.run_body(definition.body)
            parts = handed_out(definition, node) if definition.generator and isinstance(node, s.Call) else None
            if parts:
                return v.Unknown(f"{function.key}()", called=function.key, parts=parts)
            if self._gives(definition) or (function.owner is not None and _is_stub(definition)):
                # `if known: return model`, and nothing else; or a subclass has what it does
                return v.Unknown(f"{function.key}()", called=function.key)
            return v.Known(None, f"{function.key}()")
        except Returned as result:
            return result.value
        except Raised:
            return v.Unknown(f"{function.key}()", called=function.key)
        finally:
            if ev.budget >= 0:  # else it is broken off, and its end was not seen
                self.run.reached.add(id(definition))
                if self.it.program.path:
                    self.run.reached_elsewhere.add((self.it.program.path, definition.node))
            del self.run.contexts[contexts:]
            self.run.via = via
            self.run.guards = guards

    def elsewhere(self, ev: Evaluator, expr: s.Expr, frame: Frame, name: str) -> v.Value:
        """Nothing of what happens there is told."""
        events = len(self.run.events)
        try:
            return self.it.names.named(ev.evaluated(expr, frame), name, name)
        finally:
            del self.run.events[events:]

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
            elif definition.body and self._may_leave_out(decorator):
                text = s.render(decorator)
                self.run.guards.append(Guard("", False, False, text, self.run.site(definition.body[0], "")))

    def _may_leave_out(self, decorator: s.Expr) -> bool:
        """A decorator of the project asks something before it runs what it is given: `@every(4)`."""
        made = self.it.ev(decorator.func if isinstance(decorator, s.Call) else decorator)
        if not isinstance(made, v.Function) or not isinstance(made.node, s.Def):
            return False
        # all of it: what does not matter to gradients is cut away where it is run
        known = self.it.program.owner(made.node.node).functions.get(made.node.name, ())
        whole = next((one for one in known if one.node == made.node.node), made.node)
        return any(isinstance(stmt, s.If) for stmt in s.walk_stmts(whole.body))

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
        leaving = body[position + 1 :], self.it.core.frame
        many = v.Collection(active)
        return v.Context(definition.name, Switch.OTHER, self.run.site(node), value=many, leaving=leaving)

    def parameter(self, param: s.Param, given: v.Value | None, default: v.Value | None, frame: Frame) -> v.Value:
        name = param.name
        if given is None and default is not None:
            return self._default(name, default, frame.scope)
        if given is None:
            return v.Unknown(name, scope=frame.scope)
        value = self.it.conditions.settle(name, given, frame.scope)
        if isinstance(value, v.Optimizer | v.Scaler) and not value.key:
            value = self.it.names.named(value, name, name)  # made in the call itself
        if isinstance(value, v.Unknown) and param.annotation is not None and naming.OPTIMIZER.search(name):
            value = self._of_own_class(value, self.it.core.evaluated(param.annotation, frame.outer or frame))
        return value

    def _of_own_class(self, value: v.Unknown, cls: v.Value) -> v.Value:
        """`dual_optimizer: DualOptimizer`, a class of the project: no optimizer of torch, and with none in it."""
        if not isinstance(cls, v.Class):
            return value
        bases = self.it.names.base_names(cls)
        if "Optimizer" in bases or any(api.OPTIMIZER_CLASS.match(base) for base in bases):
            return value
        words = self.it.program.words_of(*self.it.program.callees.of_class(cls.node))
        return value if words.events else v.Instance(cls, key=value.key)

    def _default(self, name: str, value: v.Value, scope: Scope) -> v.Value:
        """A default: others may pass the opposite of a flag."""
        if isinstance(value, v.Constant) and isinstance(value.value, bool):
            return self.it.names.flag(name, value.value, scope)
        value = self.it.conditions.settle(name, value, scope)
        if isinstance(value, v.Constant) and isinstance(value.value, int | float):
            value = replace(v.known(value), made_up=True, real=None, over="")
        return value

    # -- classes

    def instantiate(self, cls: v.Class, a: v.Arguments, node: s.Call) -> v.Value:
        bases = self.it.names.base_names(cls)
        if self._is_optimizer(cls, bases):
            return self.it.api.make_optimizer(cls.key, a, node)
        if any("Sched" in b or api.SCHEDULER_CLASS.match(b) or b == "_LRScheduler" for b in bases):
            found = next((o for o in (self.run.optimizer_for(x) for x in a.every) if o), None)
            torch = any(api.SCHEDULER_CLASS.match(b) or b in ("_LRScheduler", "LRScheduler") for b in bases)
            return v.Scheduler("", found.ref.id if found else None, torch and not self._steps_in_its_own_way(cls))
        module = is_module(bases)
        instance = v.Instance(cls, module=module)
        words = self.it.program.words_of(*self.it.program.callees.of_class(cls.node))
        if module and not (words.events or words.contexts):
            for value in a.every:
                self.it.gradients.use_up(value, node)
            instance.given = a
            return instance
        instance.key = self.run.fresh(cls.key)
        if module:
            self.run.parts[instance.key] = self.it.guesses.modules_in(a.every)
        init = self.it.core.objects.function(cls, "__init__")
        if init is not None:
            init.owner = instance
            self.it.core.enter(init, node, a)
        elif not module:
            self._fill(instance, cls, a)
        return instance

    def _fill(self, instance: v.Instance, cls: v.Class, a: v.Arguments) -> None:
        """A dataclass, a NamedTuple: the models and optimizers that it holds; its numbers decide no condition."""
        for name, value in (*zip(cls.node.fields, a.args, strict=False), *a.kwargs.items()):
            if not isinstance(value, v.Constant):
                self.it.core.set(instance, name, value)

    def _is_optimizer(self, cls: v.Class, bases: set[str]) -> bool:
        """Of torch, or of a base that is not seen and is called one."""
        if "Optimizer" in bases or any(api.OPTIMIZER_CLASS.match(b) for b in bases):
            return True
        unseen = self.it.core.classes_of(cls.node).foreign(cls.node)
        return any(dotted.endswith("Optimizer") for dotted in unseen)

    def _steps_in_its_own_way(self, cls: v.Class) -> bool:
        """A scheduler whose class has a `step` that is not built on torch's: when it is called is its own affair."""
        step = self.it.core.objects.function(cls, "step")
        if step is None or not isinstance(step.node, s.Def):
            return False
        return not {"super", "step"} <= self.it.program.owner(step.node.node).own_words(step.node.body).called


def _through_super(node: s.Call) -> bool:
    func = node.func
    return isinstance(func, s.Attr) and isinstance(func.base, s.Call) and s.render(func.base.func) == "super"


def _is_stub(definition: s.Def) -> bool:
    """`def compute_loss(self, batch): pass`."""
    return all(isinstance(x, s.ExprStmt) and isinstance(x.value, s.Const) for x in definition.body)


def is_module(bases: set[str]) -> bool:
    return any(b.endswith(("Module", "Model", "PreTrainedModel", "Net", "Loss")) for b in bases)


def _yields(stmt: s.Stmt) -> bool:
    return any(isinstance(p, s.Yield) for x in s.walk_stmts([stmt]) for e in s.expressions(x) for p in s.walk_expr(e))
