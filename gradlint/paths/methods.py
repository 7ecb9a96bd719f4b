"""Dispatches `base.name(…)` on what the base is."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlint.events import HELPER, ClipApi, ClipKind, EditKind, Framework, Norm, Params, Role, Step, Zero
from gradlint.knowledge import frameworks, naming
from gradlint.knowledge import torch_api as api
from gradlint.knowledge.rows import Calls, Thing
from gradlint.knowledge.words import EVENT_METHODS
from gradlint.paths import roles, tensors
from gradlint.paths import values as v
from gradlint.paths.groups import Parts, cuts
from gradlint.paths.run import owner
from gradlint.python import syntax as s
from gradlint.python.calls import Arguments
from gradlint.python.scope import Scopes
from gradlint.python.usage import Use
from gradlint.records import replace

if TYPE_CHECKING:
    from gradlint.paths.interpreter import Interpreter

#: methods of a module that compute nothing
_NO_FORWARD = {
    "state_dict", "load_state_dict", "register_forward_hook", "register_comm_hook", "children", "modules",
}  # fmt: skip


#: Python's own containers, and what they have by themselves
_CONTAINERS = {
    kind.__name__: frozenset(dir(kind))
    for kind in (dict, list, set, *(getattr(collections, name) for name in collections.__all__ if name != "namedtuple"))
}
#: methods that keep what they are given
_STORES = {"append", "extend", "add", "add_", "copy_", "insert", "put", "push", "update", "store", "mul_", "sub_"}
#: `p.grad.cpu().numpy()` are the gradients still
_SAME_NUMBERS = {"clone", "detach", "flatten", "numpy", "ravel", "tolist", "view"}
#: what leaves a copy of a parameter one, on another device or of another type perhaps
_STILL_A_TWIN = {"clone", "contiguous", "cpu", "cuda", "double", "float", "requires_grad_", "to", "type"}


class Methods:
    """Method calls, on known things and on things that only have a name."""

    def __init__(self, it: Interpreter) -> None:
        self.it = it
        self.run = it.run

    def method(self, base: v.Value, name: str, node: s.Call, given: v.Arguments) -> v.Value:
        result = self._known_method(base, name, given, node)
        if result is not None:
            return result
        func = node.func
        if not isinstance(func, s.Attr) or func.name != name:
            func = s.Attr(func.node, s.Name(func.node, base.key), name)
        value = self.it.core.attribute(base, func)
        if isinstance(value, v.Bound):
            return self.it.guesses.unknown_call(value.key, given, node)
        return self.it.core.call(value, node, given)

    def _known_method(self, base: v.Value, name: str, a: v.Arguments, node: s.Call) -> v.Value | None:
        """The effect of `base.name(…)` if base is something known; None to look the attribute up instead."""
        if (base.key, name) in self.run.attributes and not isinstance(base, v.Instance):
            return None
        if name in _STORES and not isinstance(base, v.Grad):
            a = Arguments([self.it.gradients.put_aside(x, node) for x in a.args], a.kwargs)
        match base:
            case v.Unknown() | v.Model() if self.it.guesses.hands_gradients(name, base, a, node):
                return v.Unknown(s.render(node), called=name)
            case v.Optimizer():
                if not base.key and isinstance(node.func, s.Attr):
                    self._used_on_the_spot(base, s.render(node.func.base))
                return self.it.gradients.optimizer_method(base, name, a, node)
            case v.Scheduler():
                if name == "step":
                    self.it.gradients.scheduler_step(base, node)
                return v.Unknown(s.render(node))
            case v.Scaler():
                return self.it.gradients.scaler_method(base, name, a, node)
            case v.Managing():
                return self.it.frameworks.managing_method(base, name, a, node)
            case v.Grad():
                return self.it.gradients.grad_method(base, name, a, node)
            case v.Parameter():
                if name == "zero_grad":
                    self._zero_of_something(node)  # no parameter has that: it is an optimizer, of a list of them
                if name in api.HOOKS:
                    self.it.gradients.hook(base, a.get(0, "hook"), node)
                return self._parameter_method(base, name, node)
            case v.Tensor():
                return self._tensor_method(base, name, a, node)
            case v.Collection():
                return self._collection_method(base, name, a, node)
            case v.Instance():
                return self._instance_method(base, name, a, node)
            case v.Super():
                return self._of_base(name, a, node)
            case v.Model():
                return None if self._is_own_method(base.inner, name) else self._model_method(base, name, a, node)
            case v.Context():
                return self.it.api.context_method(base, name, a, node)
            case v.Unknown() if base.grads is not None and name in _SAME_NUMBERS:
                return replace(base, key=s.render(node))
            case v.Unknown():
                return self._unknown_method(base, name, a, node)
            case v.Constant() if name == "backward":  # it was a number where it was last seen
                return self._unknown_backward(v.Unknown(s.render(node.func).rpartition(".")[0]), a, node)
            case v.ParamsValue() | v.Counted() | v.Constant():
                return v.Unknown(s.render(node), called=name)
            case _:
                return None

    # -- known things

    @staticmethod
    def _parameter_method(base: v.Parameter, name: str, node: s.Call) -> v.Value:
        if name == "clone" and not base.twin:
            return tensors.twin(base, s.render(node))
        stays = name in ("detach", "data", "view") or (base.twin and name in _STILL_A_TWIN)
        return base if stays else v.Unknown(s.render(node))

    def _used_on_the_spot(self, optimizer: v.Optimizer, text: str) -> None:
        """`SGD(model.parameters(), lr).step()`: the same one in each turn, unless the turn makes the model, too."""
        optimizer.key = text
        here = frozenset(loop.id for loop in self.run.loops)
        owners = optimizer.ref.params.owners
        if owners and all(self.run.made.get(owner) == here for owner in owners):
            optimizer.ref = self.run.birth(replace(optimizer.ref, id=self.run.fresh(text), text=text))
        else:
            optimizer.ref = replace(optimizer.ref, id=text, text=text, born=False)
            self.run.register(optimizer.ref)

    def _is_own_method(self, value: v.Value | None, name: str) -> bool:
        """A method that the file defines itself, on the model inside a wrapper."""
        return isinstance(value, v.Instance) and self.it.core.objects.function(value.cls, name) is not None

    def of_import(self, dotted: str, a: v.Arguments, node: s.Call) -> v.Value | None:
        """`accelerator.backward(loss)` with a global from another module; None if it is a function."""
        home, _, name = dotted.rpartition(".")
        last = naming.last(home)
        foreign = home.startswith(("torch", "builtins")) or home.partition(".")[0] in frameworks.PACKAGES
        if home and name in EVENT_METHODS and not foreign:
            if naming.OPTIMIZER.search(last) or frameworks.named(last) is not None or naming.SCALER.search(last):
                return self._unknown_method(v.Unknown(home), name, a, node)
        return None

    def _tensor_method(self, base: v.Tensor, name: str, a: v.Arguments, node: s.Call) -> v.Value:
        if name == "backward":
            self.it.gradients.backward(base, node, gradient=a.get(0, "gradient"))
            return v.NONE
        if name == "register_hook":
            self.it.gradients.hook(base, a.get(0, "hook"), node)
            return v.Unknown(s.render(node))
        if name == "zero_grad":
            self._zero_of_something(node)
            return v.NONE
        if name == "step" and base.model is not None:
            return v.Unknown(s.render(node))
        if name == "update":
            self._update_entries(base, a)
            return v.NONE
        if name in ("parameters", "named_parameters"):
            return v.ParamsValue("", Params(frozenset({base.key}), False), True, None, name != "parameters")
        return tensors.method(base, name, a.args, s.render(node))

    def _collection_method(self, base: v.Collection, name: str, a: v.Arguments, node: s.Call) -> v.Value:
        if name in ("get", "pop") and a.args:
            return base.at(a.args[0]) or (a.args[1] if len(a.args) > 1 else v.Unknown(s.render(node)))
        if name in ("step", "zero_grad"):
            for item in base.each:
                optimizer = self.run.optimizer_for(item)
                if optimizer is not None:
                    self.it.gradients.optimizer_method(optimizer, name, a, node)
        return v.Unknown(s.render(node), called=name)

    def _update_entries(self, base: v.Value, a: v.Arguments) -> None:
        """`out.update(loss=…)`, `out.update({"loss": …})`."""
        new = dict(a.kwargs)
        for value in a.args:
            if isinstance(value, v.Collection):
                new.update(value.entries)
        if base.key:
            self.run.entries.setdefault(base.key, {}).update({v.Constant(k).key: x for k, x in new.items()})

    def _instance_method(self, base: v.Instance, name: str, a: v.Arguments, node: s.Call) -> v.Value | None:
        if name in ("register_buffer", "__setattr__") and len(a.args) > 1 and isinstance(a.args[0], v.Constant):
            self.it.core.set(base, str(a.args[0].value), a.args[1])
        called_by = frameworks.calling(self.it.names.base_names(base.cls)) or self._alike(base)
        if called_by is not None:
            managed = self.it.frameworks.derived_method(base, called_by[0], name, a, node)
            if managed is not None:
                return managed
        if base.module or name in ("parameters", "named_parameters"):
            result = self._model_method(base, name, a, node)
            if result is not None:
                return result
        return self._inherited_method(base, name, a, node)

    def _alike(self, base: v.Instance) -> tuple[Framework, Calls] | None:
        """Its base is not known, but its methods are those that a framework calls."""
        return frameworks.alike(lambda name: self.it.core.objects.has(base.cls, name))

    def _inherited_method(self, base: v.Instance, name: str, a: v.Arguments, node: s.Call) -> v.Value | None:
        """A method that comes from a base class in another file, or that does not exist at all."""
        if name in api.MODULE_PASSTHROUGH and not naming.TOUCHES_GRADIENTS.search(name):
            return base  # `.to(device)`: its base is a module, as it seems
        if name == "zero_grad":
            self._zero_of_something(node)
        elif naming.touches_gradients(name):
            if base.cls.node.bases and not self._is_of_container(base, name):
                self.it.gradients.opaque(None, node)
        elif self.it.program.callees.is_missing(node):
            self.run.doubt(node, Params(), clears=True)
        if naming.CRITERION.search(name):
            return self.it.guesses.criterion(name, a, node)
        if self.it.guesses.may_scale_gradients(name.lower(), Arguments([base, *a.args], a.kwargs)):
            self.it.gradients.edit(v.Grad("gradients", Params()), EditKind.PERHAPS, None, node)
        merged = tensors.merge(self.it.guesses.with_models(a.every), s.render(node), Norm.UNKNOWN)
        if merged is not None:
            return merged
        return v.Unknown(s.render(node), called=name, params=Params(known=True))

    def _is_of_container(self, base: v.Instance, name: str) -> bool:
        """`self.clear()` of a `class Metrics(dict)`."""
        return any(name in _CONTAINERS.get(one, ()) for one in self.it.names.base_names(base.cls))

    def _of_base(self, name: str, a: v.Arguments, node: s.Call) -> v.Value:
        """`super().name(…)` of a base that is not known."""
        merged = tensors.merge(a.every, s.render(node), Norm.RAW) if name in ("forward", "__call__") else None
        if merged is not None:
            return merged
        if name != "__init__" and naming.TOUCHES_GRADIENTS.search(name):
            self.it.gradients.opaque(None, node)
        return v.Unknown(s.render(node), called=name)

    def _model_method(self, base: v.Value, name: str, a: v.Arguments, node: s.Call) -> v.Value | None:
        key = owner(base)
        if name in api.PARAMETER_METHODS:
            named = name == "named_parameters"
            return v.ParamsValue(
                s.render(node), Params(frozenset({key}), True), True, None, named, self.run.wrap_of(base)
            )
        if name in ("zero_grad", "zero_grad_"):
            guess = roles.suspect(self.run.programs, Role.MODEL, key) if isinstance(base, v.Unknown) else None
            self.run.emit(Zero, node, params=Params(frozenset({key}), True), guess=guess)
            return v.NONE
        if name == "no_sync":
            return self.it.gradients.no_sync_context(base, node)
        if name == "clip_grad_norm_":
            joined = Arguments([base, *a.args], a.kwargs)
            return self.it.gradients.clip(node, joined, kind=ClipKind.NORM, api=ClipApi.MODEL)
        if name in api.MODULE_PASSTHROUGH:
            return base
        if name in ("set_requires_gradient_sync", "set_is_last_backward", "set_gradient_accumulation_boundary"):
            flag = a.get(0, "requires_gradient_sync") or v.Unknown("sync")
            self.run.attributes[(key, "require_backward_grad_sync")] = flag
            return v.NONE
        if name in ("backward", "step") and isinstance(base, v.Model | v.Unknown):
            return self.it.frameworks.engine_method(base, name, a, node)
        if name in _NO_FORWARD:
            return v.Unknown(s.render(node), called=name)
        if self.it.guesses.may_scale_gradients(name.lower(), Arguments([base, *a.args], a.kwargs)):
            self.it.gradients.edit(v.Grad("gradients", self.it.domain.params_of(base)), EditKind.PERHAPS, None, node)
            return v.Unknown(s.render(node), called=name)
        if isinstance(base, v.Model) or (isinstance(base, v.Instance) and base.module):
            return self.it.gradients.forward(base, a, node)
        return None

    # -- things that only have a name

    def _unknown_method(self, base: v.Unknown, name: str, a: v.Arguments, node: s.Call) -> v.Value:
        found = self._unknown_event(base, name, a, node) if name in EVENT_METHODS else None
        if found is not None:
            return found
        if name in api.PARAMETER_METHODS:
            params = Params(frozenset({base.key}), True)
            return v.ParamsValue(s.render(node), params, True, None, name == "named_parameters")
        if name in api.HOOKS:
            self.it.gradients.hook(base, a.get(0, "hook"), node)
            return v.Unknown(s.render(node))
        if name in api.MODULE_PASSTHROUGH and not a.kwargs.get("dim"):
            return base
        if name in ("set_requires_gradient_sync", "set_gradient_accumulation_boundary"):
            return self._model_method(base, name, a, node) or base
        if name in ("append", "extend") and a.args:
            return base
        if name == "get_scale":
            return v.Unknown(s.render(node), called=name, of_scale=True)
        if cuts(name, [*node.args[1:], node.kwargs.get("dim")]):
            return v.Unknown(s.render(node), called=name, params=base.params, parts=Parts.MICRO)
        if name in api.CUTS or (name == "sample" and base.called.startswith(api.DISTRIBUTIONS)):
            return v.Unknown(s.render(node), called=name)
        text = s.render(node)
        if self.it.guesses.may_scale_gradients(name.lower(), Arguments([base, *a.args], a.kwargs)):
            self.it.gradients.edit(v.Grad("gradients", Params()), EditKind.PERHAPS, None, node)
            return v.Unknown(text, called=name)
        if base.params.owners and not self.it.core.frame.no_grad:
            as_tensor = v.Tensor(base.key, base.params, Norm.UNKNOWN)
            return tensors.method(as_tensor, name, a.args, text)
        if self.run.does(Use.OWNER, base) and not self.it.core.frame.no_grad and not naming.OPTIMIZER.search(base.key):
            return self.it.gradients.forward(base, a, node)
        optimizer = self.run.optimizer_for(base) if self.it.gradients.is_own_way(name) else None
        if optimizer is not None and frameworks.on_any(name, Thing.OPTIMIZER) is not None:
            return self.it.gradients.optimizer_method(optimizer, name, a, node)
        if optimizer is not None:
            self.it.gradients.opaque(frozenset({optimizer.ref.id}), node)
        called = v.Unknown(f"{base.key}.{name}")
        if name in naming.MODEL_ATTRIBUTES or self.run.does(Use.OWNER, called):
            return self.it.guesses.call_by_name(called, a, node)  # `state.model(x)`
        return self.it.guesses.unknown_call(called.key, a, node)

    def _unknown_event(self, base: v.Unknown, name: str, a: v.Arguments, node: s.Call) -> v.Value | None:
        """An event word on something unknown: the name of the thing has to say what it is."""
        last = naming.last(base.key)
        framework = frameworks.named(last)
        if framework is not None:
            return self.it.frameworks.managing_method(self.it.frameworks.managing_for(base, framework), name, a, node)
        scaler = self.run.scaler_for(base)
        foreign = scaler is not None and roles.is_foreign(self.run.programs, base.key)
        if scaler is not None and not foreign and name in ("scale", "step", "update", "unscale_"):
            if name != "step" or a.args or a.kwargs:
                return self.it.gradients.scaler_method(scaler, name, a, node)
        if name == "backward":
            return self._unknown_backward(base, a, node)
        if name in ("step", "zero_grad") and a.args:
            given = self.run.optimizer_for(a.args[0])
            if given is not None:
                return self._by_strategy(given, name, node)
        if name == "step":
            return self._unknown_step(base, a, node)
        if name == "zero_grad":
            optimizer = None if self.run.does(Use.OWNER, base) else self.run.optimizer_for(base)
            if optimizer is not None and (naming.OPTIMIZER.search(last) or not naming.MODEL.search(last)):
                return self.it.gradients.optimizer_method(optimizer, name, a, node)
            if base.key == "self" or not (naming.MODEL.search(last) or self.run.does(Use.OWNER, base)):
                self._zero_of_something(node)
                return v.NONE
        if name in ("clip_grad_norm_", "zero_grad", "no_sync"):
            return self._model_method(base, name, a, node)
        return None

    def _by_strategy(self, optimizer: v.Optimizer, name: str, node: s.Call) -> v.Value:
        """`strategy.step(optimizer)`, `strategy.zero_grad(optimizer)`: it is the optimizer that steps and clears."""
        ref = self.run.optimizers.get(optimizer.ref.id, optimizer.ref)
        text = s.render(node)
        if name == "step":
            self.run.emit(Step, node, optimizer=ref.id, framework=HELPER, guess=roles.unseen(text, "only steps"))
        else:
            guess = roles.unseen(text, "clears these gradients")
            self.run.emit(Zero, node, params=ref.params, optimizer=ref.id, guess=guess)
        return v.NONE

    def _unknown_backward(self, base: v.Unknown, a: v.Arguments, node: s.Call) -> v.Value:
        last = naming.last(base.key)
        first = a.get(0, "loss")
        if self._is_of_another_library(base, node):
            return v.Unknown(s.render(node), called="backward")
        engine = frameworks.named(last, Thing.ENGINE) or (naming.MODEL.search(last) and not naming.LOSS.search(last))
        if first is not None and (engine or naming.OPTIMIZER.search(last)):
            derived = isinstance(first, v.Unknown) and first.called == "backward"
            if derived or (not frameworks.named(last, Thing.ENGINE) and "grad" in naming.words(naming.last(first.key))):
                return v.Unknown(s.render(node), called="backward")  # a network that is differentiated by hand
            return self.it.frameworks.engine_method(base, "backward", a, node)
        if first is not None and not isinstance(first, v.Constant) and _is_a_loss(first, a):
            if not naming.LOSS.search(last):
                # `trainer.backward(loss)`, `strategy.backward(loss)`: somebody else's way of doing it
                guess = roles.unseen(s.render(node), "is a plain backward")
                self.it.gradients.backward(first, node, framework=HELPER, guess=guess)
                return v.NONE
        self.it.gradients.backward(base, node, gradient=a.get(0, "gradient"))
        return v.NONE

    def _is_of_another_library(self, base: v.Unknown, node: s.Call) -> bool:
        """`grad = loss_fn.backward()`: torch's backward gives nothing, and no tensor has a `forward` beside it. A tape
        is another library's, too."""
        if naming.last(base.key) == "tape":
            return True
        if frameworks.named(naming.last(base.key), Thing.ENGINE) is not None:
            return False
        uses = self.it.program.once(roles.uses)
        if uses.calls(base.key, "forward") and not uses.frameworks:
            return True
        stmt = self.it.program.once(Scopes).stmt_of(node.node)
        if isinstance(stmt, s.Assign):
            return stmt.value.node == node.node
        given = [part for expr in s.expressions(stmt) for part in s.walk_expr(expr)] if stmt is not None else []
        return any(x.node == node.node for call in given if isinstance(call, s.Call) for x in call.args)

    def _unknown_step(self, base: v.Unknown, a: v.Arguments, node: s.Call) -> v.Value | None:
        last = naming.last(base.key)
        if naming.SCHEDULER.search(last) and len(a.every) > 1:
            return v.Unknown(s.render(node), called="step")  # a pipeline's schedule, not a learning rate's
        if naming.SCHEDULER.search(last):
            self.it.gradients.scheduler_step(self.scheduler_for(base), node)
            return v.NONE
        if frameworks.named(last, Thing.ENGINE) is not None:
            return self.it.frameworks.engine_method(base, "step", a, node)
        if naming.OPTIMIZER.search(last) or (self.run.does(Use.ZEROED, base) and not naming.MODEL.search(last)):
            optimizer = self.run.optimizer_for(base)
            if optimizer is not None:
                return self.it.gradients.optimizer_method(optimizer, "step", a, node)
        return v.Unknown(s.render(node), called="step")

    def _zero_of_something(self, node: s.Call) -> None:
        """Whatever this is, it clears."""
        self.run.emit(Zero, node, params=Params(), guess=roles.unseen(s.render(node), "clears these gradients"))

    def scheduler_for(self, base: v.Unknown) -> v.Scheduler:
        found = self.run.inferred.get((base.key, Thing.SCHEDULER))
        if not isinstance(found, v.Scheduler):
            found = v.Scheduler(base.key, None, not self._made_by_project(base.key), self.run.preparing())
            self.run.inferred[(base.key, Thing.SCHEDULER)] = found
        return found

    def _made_by_project(self, key: str) -> bool:
        """The file makes a thing of this name from a class that is not PyTorch's, or says that it is given one."""
        made = [self.it.program.dotted(value.func) for value in self._assigned(key) if isinstance(value, s.Call)]
        params = (scope.param(naming.last(key)) for scope in self.it.program.once(Scopes).all)
        given = [self.it.program.dotted(p.annotation) for p in params if p is not None and p.annotation is not None]
        classes = made + [dotted for dotted in given if naming.SCHEDULER.search(naming.last(dotted))]
        return any(
            naming.last(dotted)[:1].isupper() and not dotted.startswith(api.SCHEDULER_PACKAGES) for dotted in classes
        )

    def _assigned(self, key: str) -> Iterator[s.Expr]:
        """What a name is given; a parameter, or something else than a name, what any of that name is given."""
        scopes, name = self.it.program.once(Scopes), naming.last(key)
        owner = self.it.core.frame.scope.owner(name) if key == name else None
        is_settled = owner is not None and all(param.name != name for param in owner.params)
        for scope in [owner] if owner is not None and is_settled else scopes.all:
            yield from (binding.value for binding in scope.names.get(name, ()))


def _is_a_loss(value: v.Value, a: v.Arguments) -> bool:
    """`backward(loss / n)`, `backward(total, optimizer)`: torch's own is handed a gradient, and no optimizer."""
    said = any(naming.LOSS.search(word) for word in re.findall(r"[A-Za-z_]\w*", value.key))
    return said or "loss" in a.kwargs or any(isinstance(x, v.Optimizer) for x in a.every)
