"""Follows calls: into the file's own functions, through PyTorch's and the frameworks' API, past the unknown."""

from __future__ import annotations

from gradlint.events import ClipApi, ClipKind, EditKind, Manager, Norm, Params, Step, Wrap, Zero
from gradlint.frontend import syntax as s
from gradlint.frontend import values as v
from gradlint.frontend.interp import tensors
from gradlint.frontend.interp.api import Api
from gradlint.frontend.interp.gradients import Arguments
from gradlint.frontend.interp.run import MAX_DEPTH, owner
from gradlint.frontend.knowledge import naming
from gradlint.frontend.knowledge import torch_api as api


class Unwound(Exception):
    """Control leaves the statements that are running."""


class Raised(Unwound):
    """A `raise` or an exit: usually it does not come to that, so the caller goes on."""


class Returned(Unwound):
    """A `return` unwinds to its call."""

    def __init__(self, value: v.Value) -> None:
        self.value = value


class Calls(Api):
    """Dispatch on what is called."""

    def run_body(self, body: list[s.Stmt]) -> None:
        raise NotImplementedError("abstract: see Interpreter")

    def call(self, node: s.Call) -> v.Value:
        self.run.spend()
        func = node.func
        if isinstance(func, s.Attr):
            if isinstance(func.base, s.Call) and s.render(func.base.func) == "super":
                return self._super_call(func.name, node)
            base = self.ev(func.base)
            a = self._arguments(node)
            result = self.method(base, func, a, node)
            if result is not None:
                return result
            value = self.attribute(base, func.name, func)
            return self.call_value(value, a, node)
        value = self.ev(func)
        return self.call_value(value, self._arguments(node), node)

    def _arguments(self, node: s.Call) -> Arguments:
        args: list[v.Value] = []
        for arg in node.args:
            value = self.ev(arg)
            if isinstance(arg, s.Star) and isinstance(value, v.Collection):
                args.extend(value.items)
            else:
                args.append(value)
        return Arguments(args, {k: self.ev(x) for k, x in node.kwargs.items()})

    # -- values that are called

    def call_value(self, value: v.Value, a: Arguments, node: s.Call) -> v.Value:
        match value:
            case v.Function():
                return self.invoke(value, a.args, a.kwargs, node)
            case v.Dotted():
                return self.call_dotted(value.key, a, node)
            case v.ClassValue():
                return self._instantiate(value, a, node)
            case v.Partial():
                joined = Arguments([*value.args, *a.args], {**value.kwargs, **a.kwargs})
                return self.call_value(value.func, joined, node)
            case v.Bound():
                func = s.Attr(node.func.node, s.Name(node.func.node, value.base.key), value.name)
                return self.method(value.base, func, a, node) or self._unknown_call(value.key, a, node)
            case v.Instance():
                return self._call_instance(value, a, node)
            case v.Model():
                return self.forward(value, a, node)
            case v.Framework():
                return self.forward(value.model or value, a, node)
            case v.Context():
                return value
            case v.Scaler():
                return self._wrapped_scaler(a, node)
            case v.Unknown():
                return self._call_unknown(value, a, node)
            case _:
                return self._unknown_call(value.key, a, node)

    def _call_instance(self, value: v.Instance, a: Arguments, node: s.Call) -> v.Value:
        method = self.find_in_class(value.cls, "__call__")
        if isinstance(method, v.Function):
            bound = v.Function(f"{value.key}()", method.node, method.env, value, method.cls)
            return self.invoke(bound, a.args, a.kwargs, node)
        if value.module:
            return self._module_forward(value, a, node)
        return self._unknown_call(value.key, a, node)

    def _module_forward(self, value: v.Instance, a: Arguments, node: s.Call) -> v.Value:
        name = value.cls.key if value.cls else value.key
        if naming.LOSS.search(name):
            return self._criterion(name, a, node)
        return self.forward(value, a, node)

    def _call_unknown(self, value: v.Unknown, a: Arguments, node: s.Call) -> v.Value:
        name = naming.last(value.key)
        if self.run.scaler_for(value) is not None:
            return self._wrapped_scaler(a, node)
        if naming.LOSS.search(name) and value.key not in self.program.owners:
            return self._criterion(name, a, node)
        makes = name[:1].isupper() and not name.isupper() and len(name) > 1  # `QANet(…)` makes a model, `G(z)` runs one
        if (value.key in self.program.owners or naming.MODEL.search(name)) and not makes:
            if not any(self.run.optimizer_for(x) for x in a.every):
                return self.forward(value, a, node)
        return self._unknown_call(value.key, a, node)

    def _wrapped_scaler(self, a: Arguments, node: s.Call) -> v.Value:
        """timm- and Swin-style: `loss_scaler(loss, optimizer, clip_grad=…)` does everything itself."""
        found = [o for o in (self.run.optimizer_for(x) for x in a.every) if o is not None]
        self.opaque(frozenset(o.ref.id for o in found) if found else None, node)
        return v.Unknown(s.render(node), called="scaler")

    def _criterion(self, name: str, a: Arguments, node: s.Call) -> v.Value:
        reduction = a.kwargs.get("reduction")
        norm = Norm.SUMMED if isinstance(reduction, v.Known) and reduction.value == "sum" else Norm.RAW
        inherited = tensors.kept_norm(a.every)
        if inherited in (Norm.DIVIDED, Norm.DIVIDED_BY_COUNTER, Norm.WEIGHTED):
            norm = inherited
        merged = tensors.merge(self._with_models(a.every), s.render(node), norm)
        return merged or v.Tensor(s.render(node), Params(), norm)

    def _with_models(self, parts: list[v.Value]) -> list[v.Value]:
        """Models among the arguments count as what the result depends on."""
        out: list[v.Value] = []
        for part in parts:
            is_model = isinstance(part, v.Model | v.Framework) or (isinstance(part, v.Instance) and part.module)
            if isinstance(part, v.Unknown) and not part.params.owners and part.key in self.program.owners:
                is_model = True
            if is_model and not self.run.no_grad:
                out.append(v.Unknown(part.key, params=Params(frozenset({owner(part)}), True)))
            else:
                out.append(part)
        return out

    def _unknown_call(self, name: str, a: Arguments, node: s.Call) -> v.Value:
        """A function of which nothing is known but its name and what it is given."""
        last = naming.last(name)
        self._touch(last, a, node)
        for value in a.every:
            self.use_up(value, node)
        if naming.LOSS.search(last) and not naming.OPTIMIZER.search(last) and not self.run.no_grad:
            return self._criterion(last, a, node)
        if self.run.no_grad:
            return v.Unknown(s.render(node), called=name)
        merged = tensors.merge(self._with_models(a.every), s.render(node), tensors.kept_norm(a.every))
        if merged is not None and any(isinstance(x, v.Tensor) for x in tensors._flatten(a.every)):
            return merged
        params = merged.params if merged is not None else Params(known=True)
        return v.Unknown(s.render(node), called=name, params=params)

    def _touch(self, name: str, a: Arguments, node: s.Call) -> None:
        """What an unknown function may do to the gradients of the optimizers and models that it is given."""
        optimizers = [
            o
            for o in (
                self.run.optimizer_for(x) for x in a.every if isinstance(x, v.Optimizer | v.Collection | v.Unknown)
            )
            if o
        ]
        if optimizers and naming.OPTIMIZES.search(name):
            for optimizer in optimizers:
                self.run.emit(Step, node, optimizer=optimizer.ref.id, manager=Manager.HELPER)
            return
        if optimizers and not naming.HARMLESS.search(name):
            self.opaque(frozenset(o.ref.id for o in optimizers), node)
            return
        grads = [x for x in a.every if isinstance(x, v.Grad | v.ParamsValue)]
        if "clip" in name.lower() and "grad" in name.lower():
            kind = ClipKind.VALUE if "value" in name.lower() else ClipKind.NORM
            self.clip(node, a, kind=kind, api=ClipApi.CUSTOM)
        elif grads and "norm" in name.lower():
            self.read(grads[0], node)
        elif grads and isinstance(grads[0], v.Grad) and ("reduce" in name.lower()):
            self.edit(grads[0], EditKind.REDUCE, None, node)
        elif any(w in name.lower() for w in ("zero_grad", "clear_grad", "reset_grad", "zero_gradients", "zero_grads")):
            params = self.params_of(a.args[0]) if a.args else Params()
            self.run.emit(Zero, node, params=params)

    # -- functions of this file

    def invoke(self, function: v.Function, args: list[v.Value], kwargs: dict[str, v.Value], node: s.Node) -> v.Value:
        definition = function.node
        if isinstance(definition, s.Lambda):
            return self._invoke_lambda(function, definition, args)
        if definition is None or len(self.run.stack) >= MAX_DEPTH or id(definition) in self.run.stack:
            return v.Unknown(function.key, called=function.key)
        self.run.reached.add(id(definition))
        env = v.Env({}, function.env or self.run.module)
        self._bind(definition, function, args, kwargs, env)
        outer, self.env = self.env, env
        guards, self.run.guards = self.run.guards, list(self.run.guards)
        self.run.stack.append(id(definition))
        contexts = len(self.run.contexts)
        quiet = self._enter_decorators(definition)
        try:
            if definition.generator and _is_context_manager(definition):
                return self._probe_context(definition, contexts, node)
            self.run_body(definition.body)
            return v.Known(f"{function.key}()", None)
        except Returned as result:
            return result.value
        except Raised:
            return v.Unknown(f"{function.key}()", called=function.key)
        finally:
            self.run.no_grad -= quiet
            del self.run.contexts[contexts:]
            self.run.stack.pop()
            self.run.guards = guards
            self.env = outer

    def _enter_decorators(self, definition: s.Def) -> int:
        """`@torch.autocast(…)` and `@torch.no_grad()` hold for the whole body; returns how many are no_grad."""
        quiet = 0
        for decorator in definition.decorators:
            dotted = self.program.dotted(decorator.func if isinstance(decorator, s.Call) else decorator)
            if dotted in api.AUTOCAST or dotted in api.NO_GRAD:
                value = self.ev(decorator)
                if isinstance(value, v.Dotted):
                    value = v.Context(dotted, "no_grad" if "enable_grad" not in dotted else "other")
                if isinstance(value, v.Context):
                    self.run.contexts.append(value)
                    quiet += value.kind == "no_grad"
        self.run.no_grad += quiet
        return quiet

    def _invoke_lambda(self, function: v.Function, definition: s.Lambda, args: list[v.Value]) -> v.Value:
        env = v.Env({}, function.env or self.run.module)
        for param, value in zip(definition.params, args, strict=False):
            env.names[param.name] = value
        outer, self.env = self.env, env
        try:
            return self.ev(definition.body)
        finally:
            self.env = outer

    def _probe_context(self, definition: s.Def, contexts: int, node: s.Node) -> v.Value:
        """A @contextmanager: the contexts that are active at its yield are what it stands for."""
        self.run.yielded = None
        body = definition.body
        position = next((n for n, stmt in enumerate(body) if _yields(stmt)), len(body))
        self.run_body(body[: position + 1])
        active = (self.run.yielded or [])[contexts:]
        self.run.yielded = None
        found = v.Context(definition.name, "many", self.run.site(node), value=v.Collection("", list(active)))
        self.run.exits[id(found)] = (body[position + 1 :], self.env)
        return found

    def _bind(
        self, definition: s.Def, function: v.Function, args: list[v.Value], kwargs: dict[str, v.Value], env: v.Env
    ) -> None:
        params = list(definition.params)
        if function.owner is not None and params and not params[0].star:
            env.names[params.pop(0).name] = function.owner
        positional = list(args)
        for param in params:
            if param.star == "*":
                env.names[param.name] = v.Collection(f"*{param.name}", positional)
                positional = []
            elif param.star == "**":
                env.names[param.name] = v.Collection(
                    f"**{param.name}", [], {f'"{k}"': x for k, x in kwargs.items()}, "dict"
                )
            elif positional:
                env.names[param.name] = self.settle(param.name, positional.pop(0))
            elif param.name in kwargs:
                env.names[param.name] = self.settle(param.name, kwargs[param.name])
            elif param.default is not None:
                env.names[param.name] = self._default(param.name, self.ev(param.default))
            else:
                env.names[param.name] = v.Unknown(param.name)

    def _default(self, name: str, value: v.Value) -> v.Value:
        """A default: others may pass the opposite of a flag."""
        if isinstance(value, v.Known) and isinstance(value.value, bool):
            return self.flag(name, value.value)
        return self.settle(name, value)

    def _super_call(self, name: str, node: s.Call) -> v.Value:
        a = self._arguments(node)
        me = self.env.find("self")
        if isinstance(me, v.Instance) and me.cls is not None and me.cls.node is not None:
            for base in me.cls.node.bases:
                cls = self._base_class(base, me.cls)
                found = self.find_in_class(cls, name)
                if isinstance(found, v.Function):
                    return self.invoke(
                        v.Function(found.key, found.node, found.env, me, found.cls), a.args, a.kwargs, node
                    )
        if name != "__init__" and naming.TOUCHES_GRADIENTS.search(name):
            self.opaque(None, node)
        return v.Unknown(s.render(node), called=name)

    # -- classes of this file

    def _instantiate(self, cls: v.ClassValue, a: Arguments, node: s.Call) -> v.Value:
        bases = self.base_names(cls)
        if "Optimizer" in bases or any(api.OPTIMIZER_CLASS.match(b) for b in bases):
            return self.make_optimizer(cls.key, a, node)
        if any("Sched" in b or api.SCHEDULER_CLASS.match(b) or b == "_LRScheduler" for b in bases):
            found = next((o for o in (self.run.optimizer_for(x) for x in a.every) if o), None)
            torch = any(api.SCHEDULER_CLASS.match(b) or b in ("_LRScheduler", "LRScheduler") for b in bases)
            return v.Scheduler("", found.ref.id if found else None, torch)
        module = is_module(bases)
        instance = v.Instance("", cls, module)
        words = self.program.function_words(cls.key)
        if module and not (words and (words.events or words.contexts)):
            for value in a.every:
                self.use_up(value, node)
            return instance
        instance.key = self.run.fresh(cls.key)
        init = self.find_in_class(cls, "__init__")
        if isinstance(init, v.Function):
            self.invoke(v.Function(init.key, init.node, init.env, instance, init.cls), a.args, a.kwargs, node)
        return instance

    # -- methods

    def method(self, base: v.Value, func: s.Attr, a: Arguments, node: s.Call) -> v.Value | None:
        """The effect of `base.name(…)` if base is something known; None to look the attribute up instead."""
        name = func.name
        if (base.key, name) in self.run.attributes:
            return None
        match base:
            case v.Dotted():
                return self._dotted_method(base, name, a, node)
            case v.Optimizer():
                return self.optimizer_method(base, name, a, node)
            case v.Scheduler():
                if name == "step":
                    self.scheduler_step(base, node)
                return v.Unknown(s.render(node))
            case v.Scaler():
                return self.scaler_method(base, name, a, node)
            case v.Framework():
                return self.framework_method(base, name, a, node)
            case v.Grad():
                return self.grad_method(base, name, a, node)
            case v.Parameter():
                return base if name in ("detach", "data", "view") else v.Unknown(s.render(node))
            case v.Tensor():
                return self._tensor_method(base, name, a, node)
            case v.Collection():
                return self._collection_method(base, name, a, node)
            case v.Instance():
                return self._instance_method(base, name, a, node)
            case v.Model():
                if base.inner is not None and isinstance(base.inner, v.Instance):
                    method = self.find_in_class(base.inner.cls, name)
                    if isinstance(method, v.Function):
                        return None
                return self._model_method(base, name, a, node)
            case v.Context():
                return self.context_method(base, name, a, node)
            case v.Unknown():
                return self._unknown_method(base, name, a, node)
            case v.ParamsValue() | v.Counted() | v.Known():
                return v.Unknown(s.render(node), called=name)
            case _:
                return None

    def _dotted_method(self, base: v.Dotted, name: str, a: Arguments, node: s.Call) -> v.Value | None:
        """An imported object: `accelerator.backward(loss)` with a global from another module, else a function."""
        last = naming.last(base.key)
        if name in api.EVENT_METHODS and not base.key.startswith(("torch", "deepspeed", "builtins", "apex")):
            if naming.OPTIMIZER.search(last) or naming.ACCELERATOR.search(last) or naming.SCALER.search(last):
                return self._unknown_method(v.Unknown(base.key), name, a, node)
        return self.call_dotted(f"{base.key}.{name}", a, node)

    def _tensor_method(self, base: v.Tensor, name: str, a: Arguments, node: s.Call) -> v.Value:
        if name == "backward":
            self.backward(base, node)
            return v.Known("", None)
        if name == "zero_grad":
            self.run.emit(Zero, node, params=Params())  # whatever this is, it clears
            return v.Known("", None)
        if name == "step" and base.model is not None:
            return v.Unknown(s.render(node))
        if name in ("parameters", "named_parameters"):
            return v.ParamsValue("", Params(frozenset({base.key}), False), True, None, name != "parameters")
        return tensors.method(base, name, a.args, s.render(node))

    def _collection_method(self, base: v.Collection, name: str, a: Arguments, node: s.Call) -> v.Value:
        if name == "append" and a.args:
            one = a.args[0]
            if isinstance(one, v.Parameter):
                one = v.Parameter(one.key, one.params, one.wrap, True)  # picked one by one: perhaps not all
            base.items.append(one)
        elif name == "extend" and a.args and isinstance(a.args[0], v.Collection):
            base.items.extend(a.args[0].items)
        elif name in ("values", "copy"):
            return v.Collection(base.key, [*base.items, *base.entries.values()], {}, "list")
        elif name == "items":
            pairs: list[v.Value] = [v.Collection(k, [v.Known(k, k), x]) for k, x in base.entries.items()]
            return v.Collection(base.key, pairs, {}, "list")
        elif name in ("get", "pop") and a.args:
            return base.entries.get(a.args[0].key) or (a.args[1] if len(a.args) > 1 else v.Unknown(s.render(node)))
        elif name in ("step", "zero_grad"):
            for item in (*base.items, *base.entries.values()):
                optimizer = self.run.optimizer_for(item)
                if optimizer is not None:
                    self.optimizer_method(optimizer, name, a, node)
        return v.Unknown(s.render(node), called=name)

    def _instance_method(self, base: v.Instance, name: str, a: Arguments, node: s.Call) -> v.Value | None:
        if self.find_in_class(base.cls, name) is not None:
            if name == "forward" and base.module:
                return self._module_forward(base, a, node)
            if base.module and not self._follows(name):
                return self.forward(base, a, node) if not self.run.no_grad else None
            return None
        bases = self.base_names(base.cls)
        if "LightningModule" in bases or self._is_lightning(base):
            managed = self.lightning_method(base, name, a, node)
            if managed is not None:
                return managed
        if base.module or name in ("parameters", "named_parameters"):
            result = self._model_method(base, name, a, node)
            if result is not None:
                return result
        return self._inherited_method(base, name, a, node)

    def _follows(self, name: str) -> bool:
        words = self.program.function_words(name)
        return words is not None and (words.events or words.contexts or bool(words.called & api.PARAMETER_METHODS))

    def _is_lightning(self, base: v.Instance) -> bool:
        return base.cls is not None and bool(
            self.find_in_class(base.cls, "training_step") and self.find_in_class(base.cls, "configure_optimizers")
        )

    def _inherited_method(self, base: v.Instance, name: str, a: Arguments, node: s.Call) -> v.Value | None:
        """A method that comes from a base class in another file, or that does not exist at all."""
        if name == "zero_grad":
            self.run.emit(Zero, node, params=Params())
        elif naming.TOUCHES_GRADIENTS.search(name) and not naming.HARMLESS.search(name):
            if base.cls is not None and base.cls.node is not None and base.cls.node.bases:
                self.opaque(None, node)
        if naming.CRITERION.search(name):
            return self._criterion(name, a, node)
        merged = tensors.merge(self._with_models(a.every), s.render(node), Norm.UNKNOWN)
        if merged is not None:
            return merged
        return v.Unknown(s.render(node), called=name, params=Params(known=True))

    def _model_method(self, base: v.Value, name: str, a: Arguments, node: s.Call) -> v.Value | None:
        key = owner(base)
        if name in api.PARAMETER_METHODS:
            named = name == "named_parameters"
            return v.ParamsValue(
                s.render(node), Params(frozenset({key}), True), True, None, named, self.run.wrap_of(base)
            )
        if name in ("zero_grad", "zero_grad_"):
            self.run.emit(Zero, node, params=Params(frozenset({key}), True))
            return v.Known("", None)
        if name == "no_sync":
            return self.no_sync_context(base, node)
        if name == "clip_grad_norm_":
            joined = Arguments([base, *a.args], a.kwargs)
            return self.clip(node, joined, kind=ClipKind.NORM, api=ClipApi.MODEL)
        if name in api.MODULE_PASSTHROUGH:
            return base
        if name in ("set_requires_gradient_sync", "set_is_last_backward", "set_gradient_accumulation_boundary"):
            flag = a.get(0, "requires_gradient_sync") or v.Unknown("sync")
            self.run.attributes[(key, "require_backward_grad_sync")] = flag
            return v.Known("", None)
        if name in ("backward", "step") and isinstance(base, v.Model | v.Unknown):
            return self.engine_method(base, name, a, node)
        if name in (
            "state_dict",
            "load_state_dict",
            "register_forward_hook",
            "register_comm_hook",
            "children",
            "modules",
        ):
            return v.Unknown(s.render(node), called=name)
        if isinstance(base, v.Model) or (isinstance(base, v.Instance) and base.module):
            return self.forward(base, a, node)
        return None

    def _unknown_method(self, base: v.Unknown, name: str, a: Arguments, node: s.Call) -> v.Value:
        found = self._unknown_event(base, name, a, node) if name in api.EVENT_METHODS else None
        if found is not None:
            return found
        if name in api.PARAMETER_METHODS:
            params = Params(frozenset({base.key}), True)
            return v.ParamsValue(s.render(node), params, True, None, name == "named_parameters")
        if name in api.MODULE_PASSTHROUGH and not a.kwargs.get("dim"):
            return base
        if name in ("set_requires_gradient_sync", "set_gradient_accumulation_boundary"):
            return self._model_method(base, name, a, node) or base
        if name in ("append", "extend") and a.args:
            return base
        if name in api.CUTS:
            return v.Unknown(s.render(node), called=name)
        text = s.render(node)
        if base.params.owners and not self.run.no_grad:
            as_tensor = v.Tensor(base.key, base.params, Norm.UNKNOWN)
            return tensors.method(as_tensor, name, a.args, text)
        if (base.key in self.program.owners) and not self.run.no_grad and not naming.OPTIMIZER.search(base.key):
            return self.forward(base, a, node)
        return self._unknown_call(f"{base.key}.{name}", a, node)

    def _unknown_event(self, base: v.Unknown, name: str, a: Arguments, node: s.Call) -> v.Value | None:
        """An event word on something unknown: the name of the thing has to say what it is."""
        last = naming.last(base.key)
        if naming.ACCELERATOR.search(last) or naming.FABRIC.search(last):
            framework = self.framework_for(base)
            return self.framework_method(framework, name, a, node)
        scaler = self.run.scaler_for(base)
        if scaler is not None and name in ("scale", "step", "update", "unscale_"):
            if name != "step" or a.args or a.kwargs:
                return self.scaler_method(scaler, name, a, node)
        if name == "backward":
            return self._unknown_backward(base, a, node)
        if name == "step":
            return self._unknown_step(base, a, node)
        if name == "zero_grad":
            optimizer = None if base.key in self.program.owners else self.run.optimizer_for(base)
            if optimizer is not None and (naming.OPTIMIZER.search(last) or not naming.MODEL.search(last)):
                return self.optimizer_method(optimizer, name, a, node)
            if base.key == "self" or not (naming.MODEL.search(last) or base.key in self.program.owners):
                self.run.emit(Zero, node, params=Params())
                return v.Known("", None)
        if name in ("clip_grad_norm_", "zero_grad", "no_sync"):
            return self._model_method(base, name, a, node)
        if name == "unscale_":
            return None
        return None

    def _unknown_backward(self, base: v.Unknown, a: Arguments, node: s.Call) -> v.Value:
        last = naming.last(base.key)
        first = a.get(0, "loss")
        engine = naming.ENGINE.search(last) or (naming.MODEL.search(last) and not naming.LOSS.search(last))
        if first is not None and (engine or naming.OPTIMIZER.search(last)):
            return self.engine_method(base, "backward", a, node)
        if first is not None and not isinstance(first, v.Known) and naming.LOSS.search(naming.last(first.key)):
            if not naming.LOSS.search(last):
                # `trainer.backward(loss)`, `strategy.backward(loss)`: somebody else's way of doing it
                self.backward(first, node, manager=Manager.HELPER)
                return v.Known("", None)
        self.backward(base, node)
        return v.Known("", None)

    def _unknown_step(self, base: v.Unknown, a: Arguments, node: s.Call) -> v.Value | None:
        last = naming.last(base.key)
        if naming.SCHEDULER.search(last) and len(a.every) > 1:
            return v.Unknown(s.render(node), called="step")  # a pipeline's schedule, not a learning rate's
        if naming.SCHEDULER.search(last):
            self.scheduler_step(self.scheduler_for(base), node)
            return v.Known("", None)
        if naming.ENGINE.search(last):
            return self.engine_method(base, "step", a, node)
        if naming.OPTIMIZER.search(last) or (base.key in self.program.zeroed and not naming.MODEL.search(last)):
            optimizer = self.run.optimizer_for(base)
            if optimizer is not None:
                return self.optimizer_method(optimizer, "step", a, node)
        return v.Unknown(s.render(node), called="step")

    def scheduler_for(self, base: v.Unknown) -> v.Scheduler:
        found = self.run.inferred.get((base.key, "scheduler"))
        if not isinstance(found, v.Scheduler):
            found = v.Scheduler(base.key, None, not self._made_by_project(base.key), self.run.default_manager())
            self.run.inferred[(base.key, "scheduler")] = found
        return found

    def _made_by_project(self, key: str) -> bool:
        """The file makes a thing of this name from a class that is not PyTorch's."""
        for value in self.program.assignments.get(naming.last(key), []):
            dotted = self.program.dotted(value.func) if isinstance(value, s.Call) else ""
            tail = dotted.rpartition(".")[2]
            if tail[:1].isupper() and not dotted.startswith(("torch.", "transformers.", "diffusers.")):
                return True
        return False


def is_module(bases: set[str]) -> bool:
    return any(
        b in ("Module", "LightningModule") or b.endswith(("Module", "Model", "PreTrainedModel", "Net")) for b in bases
    )


def _yields(stmt: s.Stmt) -> bool:
    return any(isinstance(p, s.Yield) for x in s.walk_stmts([stmt]) for e in s.expressions(x) for p in s.walk_expr(e))


def _is_context_manager(definition: s.Def) -> bool:
    return any("contextmanager" in s.render(d) for d in definition.decorators)


__all__ = ["Calls", "Manager", "Returned", "Wrap"]
