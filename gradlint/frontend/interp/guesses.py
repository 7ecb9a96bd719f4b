"""Calls of things of which only a name is known: a criterion, a helper from another file, a wrapped scaler."""

from __future__ import annotations

from gradlint.events import ClipApi, ClipKind, EditKind, Manager, Norm, Params, Save, Step, Zero
from gradlint.frontend import roles
from gradlint.frontend import syntax as s
from gradlint.frontend import values as v
from gradlint.frontend.interp import tensors
from gradlint.frontend.interp.gradients import Arguments
from gradlint.frontend.interp.invoke import Invoke
from gradlint.frontend.interp.run import owner
from gradlint.frontend.knowledge import naming

# tuples: this is asked for every argument of every unknown call, and `A | B` would be made anew each time
_MAY_OPTIMIZE = (v.Optimizer, v.Collection, v.Unknown)
_HAS_GRADIENTS = (v.Grad, v.ParamsValue)


class Guesses(Invoke):
    """What a name and the arguments say about a call."""

    def call_by_name(self, value: v.Unknown, a: Arguments, node: s.Call) -> v.Value:
        """A value with a name: a scaler, a criterion, a model, or a function of which nothing else is known."""
        name = naming.last(value.key)
        if self.run.scaler_for(value) is not None:
            return self.wrapped_scaler(a, node)
        if naming.LOSS.search(name) and value.key not in self.program.owners:
            return self.criterion(name, a, node)
        makes = name[:1].isupper() and not name.isupper() and len(name) > 1  # `QANet(…)` makes a model, `G(z)` runs one
        if (value.key in self.program.owners or naming.MODEL.search(name)) and not makes:
            if not any(self.run.optimizer_for(x) for x in a.every):
                return self.forward(value, a, node)
        return self.unknown_call(value.key, a, node)

    def unknown_call(self, name: str, a: Arguments, node: s.Call) -> v.Value:
        """A function of which nothing is known but its name and what it is given."""
        last = naming.last(name)
        every = a.every
        self._touch(last, a, every, node)
        for value in every:
            self.use_up(value, node)
        if naming.LOSS.search(last) and not naming.OPTIMIZER.search(last) and not self.run.no_grad:
            return self.criterion(last, a, node)
        wraps = next((x for x in every if isinstance(x, v.Optimizer)), None) if last[:1].isupper() else None
        if self.run.no_grad or wraps is not None:
            return v.Unknown(s.render(node), called=name, wraps=wraps)
        merged = tensors.merge(self.with_models(every), s.render(node), tensors.kept_norm(every)) if every else None
        if merged is not None and any(isinstance(x, v.Tensor) for x in tensors.flatten(every)):
            return merged
        params = merged.params if merged is not None else Params(known=True)
        return v.Unknown(s.render(node), called=name, params=params)

    def _touch(self, name: str, a: Arguments, every: list[v.Value], node: s.Call) -> None:
        """What an unknown function may do to the gradients of the optimizers and models that it is given."""
        given = [x for x in every if isinstance(x, _MAY_OPTIMIZE)]
        optimizers = [o for o in map(self.run.optimizer_for, given) if o is not None]
        if optimizers and naming.OPTIMIZES.search(name):
            steps = roles.unseen(s.render(node), "only steps")
            for optimizer in optimizers:
                self.run.emit(Step, node, optimizer=optimizer.ref.id, manager=Manager.HELPER, guess=steps)
            return
        if optimizers and not naming.HARMLESS.search(name):
            self.opaque(frozenset(o.ref.id for o in optimizers), node)
            return
        if self.hands_gradients(name, a.args[0] if a.args else None, a, node):
            return
        grads = [x for x in every if isinstance(x, _HAS_GRADIENTS)]
        low = name.lower()
        if "clip" in low and "grad" in low and not naming.QUESTION.match(low):
            kind = ClipKind.VALUE if "value" in low else ClipKind.NORM
            plain = roles.clips_plainly(a.every)
            guess = None if plain else roles.unseen(s.render(node), "only clips")
            self.clip(node, a, kind=kind, api=ClipApi.CUSTOM, guess=guess)
        elif grads and "norm" in low:
            self.read(grads[0], node)
        elif grads and isinstance(grads[0], v.Grad) and "reduce" in low:
            guess = roles.unseen(s.render(node), "reduces gradients")
            self.edit(grads[0], EditKind.REDUCE, None, node, guess=guess)
        elif grads and any(w in low for w in ("scale_grad", "normalize_grad", "divide_grad", "average_grad")):
            guess = roles.unseen(s.render(node), "scales gradients")
            self.edit(v.Grad(grads[0].key, grads[0].params), EditKind.SCALE, None, node, guess=guess)
        elif "grad" in low and any(w in low for w in ("zero_grad", "clear_grad", "reset_grad")):
            params = self.params_of(a.args[0]) if a.args else Params()
            self.run.emit(Zero, node, params=params, guess=roles.unseen(s.render(node), "clears gradients"))
        elif naming.MAY_CHANGE_GRADIENTS.search(low) and not naming.ONLY_READS.search(low):
            self._doubt(every, node, clears=bool(naming.CLEARS.search(low)))

    def _doubt(self, every: list[v.Value], node: s.Call, *, clears: bool) -> None:
        """A function that is not seen has a model in its hands, or gradients, and a name that does not calm."""
        held = [p.params for p in every if isinstance(p, _HAS_GRADIENTS)]
        for part in every:
            module = isinstance(part, v.Model) or (isinstance(part, v.Instance) and part.module)
            if module or (isinstance(part, v.Unknown) and part.key in self.program.owners):
                held.append(Params(frozenset({owner(part)}), True))
        if held:
            params = held[0]
            for other in held[1:]:
                params = params.union(other)
            self.run.doubt(node, params, clears=clears)

    def hands_gradients(self, name: str, whose: v.Value | None, a: Arguments, node: s.Call) -> bool:
        """`get_grads(model)` from elsewhere puts gradients aside, `set_grads(model, …)` writes others."""
        if naming.NO_GRADIENTS.search(name):
            return False
        params = self.params_of(whose) if whose is not None else Params()
        if naming.GETS_GRADIENTS.search(name):
            self.run.emit(Save, node, "", params=params)
            return True
        if naming.SETS_GRADIENTS.search(name) and (a.every or isinstance(whose, v.Model)):
            self.new_gradient(params, node)
            return True
        return False

    def wrapped_scaler(self, a: Arguments, node: s.Call) -> v.Value:
        """timm- and Swin-style: `loss_scaler(loss, optimizer, clip_grad=…)` does everything itself."""
        found = [o for o in (self.run.optimizer_for(x) for x in a.every) if o is not None]
        self.opaque(frozenset(o.ref.id for o in found) if found else None, node)
        return v.Unknown(s.render(node), called="scaler")

    def module_forward(self, value: v.Instance, a: Arguments, node: s.Call) -> v.Value:
        name = value.cls.key if value.cls else value.key
        if naming.LOSS.search(name):
            return self.criterion(name, a, node)
        return self.forward(value, a, node)

    def criterion(self, name: str, a: Arguments, node: s.Call) -> v.Value:
        reduction = a.kwargs.get("reduction")
        norm = Norm.SUMMED if isinstance(reduction, v.Known) and reduction.value == "sum" else Norm.RAW
        inherited = tensors.kept_norm(a.every)
        if inherited in (Norm.DIVIDED, Norm.DIVIDED_BY_COUNTER, Norm.WEIGHTED):
            norm = inherited
        merged = tensors.merge(self.with_models(a.every), s.render(node), norm)
        return merged or v.Tensor(s.render(node), Params(), norm)

    def with_models(self, parts: list[v.Value]) -> list[v.Value]:
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
