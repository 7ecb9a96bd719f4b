"""Calls of things of which only a name is known: a criterion, a helper from another file, a wrapped scaler."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradlint.events import HELPER, ClipApi, ClipKind, EditKind, Norm, Opaque, Params, Save, Step, Wrap, Zero
from gradlint.knowledge import frameworks, naming
from gradlint.knowledge.pattern import Pattern
from gradlint.knowledge.rows import Thing
from gradlint.paths import roles, tensors
from gradlint.paths import values as v
from gradlint.paths.run import owner
from gradlint.python import syntax as s
from gradlint.python.binding import called, hands_self_on, identifiers, target_names
from gradlint.python.calls import Arguments
from gradlint.python.scope import Scopes
from gradlint.python.usage import Use
from gradlint.python.values import Enough

if TYPE_CHECKING:
    from gradlint.paths.interpreter import Interpreter
    from gradlint.python.scope import Scope

# tuples: this is asked for every argument of every unknown call, and `A | B` would be made anew each time
_MAY_OPTIMIZE = (v.Optimizer, v.Collection, v.Unknown)
_HAS_GRADIENTS = (v.Grad, v.ParamsValue)
_RESTORED = (v.Model, v.Instance, v.Optimizer, v.Scheduler, v.Scaler)
#: names and attributes: `n` and `.steps` of `n * args.steps`, beside `args`
_WORDS = re.compile(r"\.?[A-Za-z_]\w*")
#: an argument that takes a number of micro-batches, or a weight made of it
_TAKES_NUMBER = Pattern(r"(?i)accum|micro|steps?$|scal|div|factor|weight|norm|window|num|^[nk]$")
#: `self.n`, `STEPS`: a number that is kept, not counted in the batch
_ATTRIBUTE = re.compile(r"[\w#]*(\.\w+)*")
#: what may be called where a constructor keeps a number
_CONVERSIONS = {"float", "int", "tensor", "as_tensor", "max", "register_buffer"}
#: what changes how large a loss is
_RESIZE = {"div", "divide", "true_divide", "mul", "multiply", "sum", "nansum", "super", *tensors.IN_PLACE}
#: what calls a function later, or at other times
_KEEPS_FUNCTIONS = Pattern(r"(?i)register|hook|(^|_)(add|set|on|attach|subscribe)(_|$)|handler|callback|schedul|submit")
#: for a look into a method of the file
_SMALL_BUDGET = 400
_NORMALISES = Pattern(r"(?i)scale|normali[sz]|divid|averag|mean|multipl")
#: what is done to gradients by a function of this name does not change their size, or is another rule's business
_NO_SCALING = Pattern(
    r"(?i)norm$|clip|zero|clear|reset|log|print|plot|hook|watch|stat|check|save|enable|disable|requires|get|sync|reduce"
)


class Guesses:
    """What a name and the arguments say about a call."""

    def __init__(self, it: Interpreter) -> None:
        self.it = it
        self.run = it.run
        #: whether a text names the number of micro-batches, by where it stands and the files that are known
        self._windows: dict[tuple[str, Scope, int], bool] = {}

    def call_by_name(self, value: v.Unknown, a: v.Arguments, node: s.Call) -> v.Value:
        """A value with a name: a scaler, a criterion, a model, or a function of which nothing else is known."""
        name = naming.last(value.key)
        if self.run.scaler_for(value) is not None:
            return self.wrapped_scaler(a, node)
        if naming.LOSS.search(name) and not self.run.does(Use.OWNER, value):
            return self.criterion(name, a, node, value)
        makes = name[:1].isupper() and not name.isupper() and len(name) > 1  # `QANet(…)` makes a model, `G(z)` runs one
        if (self.run.does(Use.OWNER, value) or naming.MODEL.search(name)) and not makes:
            if not any(self.run.optimizer_for(x) for x in a.every):
                return self.it.gradients.forward(value, a, node)
        return self.unknown_call(value.key, a, node)

    def unknown_call(self, name: str, a: v.Arguments, node: s.Call, *, imported: bool = False) -> v.Value:
        """A function of which nothing is known but its name and what it is given."""
        last = naming.last(name)
        every = a.every
        self._touch(last, a, every, node)
        self._run_handed(last, every, node)
        for value in every:
            self.it.gradients.use_up(value, node)
        other = naming.OPTIMIZER.search(last) or naming.SCALER.search(last)
        if naming.LOSS.search(last) and not other and not self.it.core.frame.no_grad:
            if last[:1].isupper() and self.hands_window(a) and not _has_tensors(every):
                return v.Unknown(s.render(node), called=name, counts=True)  # a criterion is made
            return self.criterion(last, a, node, unseen=name if imported else "")
        wraps = next((x for x in every if isinstance(x, v.Optimizer)), None) if last[:1].isupper() else None
        if self.it.core.frame.no_grad or wraps is not None:
            return v.Unknown(s.render(node), called=name, wraps=wraps)
        merged = tensors.merge(self.with_models(every), s.render(node), tensors.kept_norm(every)) if every else None
        if merged is not None and _has_tensors(every):
            return self.perhaps_normalised(merged, last, a)
        params = merged.params if merged is not None else Params(known=True)
        counts, handed = self.hands_window(a), self._numbers(a)
        kept = tuple(x for x in every if isinstance(x, _RESTORED)) if naming.RESTORES.search(last) else ()
        return v.Unknown(s.render(node), called=name, params=params, counts=counts, handed=handed, kept=kept)

    def _run_handed(self, name: str, every: list[v.Value], node: s.Call) -> None:
        """`timed(train_step)`: an update that was written right here, in a loop, and needs nothing is made."""
        if not self.run.loops or _KEEPS_FUNCTIONS.search(name):
            return
        for value in every:
            if isinstance(value, v.Function) and value.outer is self.it.core.frame and isinstance(value.node, s.Def):
                words = self.it.program.words_of(value.node)
                needs = any(param.default is None and not param.star for param in value.node.params)
                if words.backward and words.steps and not needs:
                    self.it.core.enter(value, node, Arguments([], {}))

    # -- what may divide out of sight

    def hands_window(self, a: v.Arguments) -> bool:
        """Among the arguments is the number of micro-batches, or something that was made of it."""
        return any(self._speaks_of_window(x) for x in a.every)

    def _speaks_of_window(self, value: v.Value, depth: int = 0) -> bool:
        if isinstance(value, v.Tensor):
            return self._names_window(value.divisor)
        if isinstance(value, v.Constant):
            return not (isinstance(value, v.Known) and value.counter) and self._names_window(value.key)
        if depth < 3:
            entries = self.run.entries.get(value.key) if value.key else None
            inside = [] if entries is None else [*entries.values()]
            if isinstance(value, v.Collection):
                inside += value.each
            if inside and any(self._speaks_of_window(x, depth + 1) for x in inside):
                return True
        return isinstance(value, v.Unknown) and (value.counts or self._names_window(value.key))

    def _names_window(self, text: str) -> bool:
        if len(text) >= 80:
            return False
        scope = self.it.core.frame.scope
        asked = text, scope, len(self.run.programs)
        known = self._windows.get(asked)
        if known is None:
            known = "accum" in text.lower() or any(
                self.run.does_with(Use.COUNTED_TO, word, scope) for word in _WORDS.findall(text)
            )
            self._windows[asked] = known
        return known

    @staticmethod
    def _numbers(a: v.Arguments) -> frozenset[float]:
        """Numbers among the arguments that may be the N of a window."""
        named = [x for name, x in a.kwargs.items() if _TAKES_NUMBER.search(name)]
        found = [v.number_of(x) for x in (*a.args, *named)]
        inverse = [1 / n for n in found if n is not None and 0 < n < 1]
        return frozenset(n for n in (*found, *inverse) if n is not None and n >= 2)

    def perhaps_normalised(self, result: v.Tensor, name: str, a: v.Arguments, made: v.Value | None = None) -> v.Tensor:
        """What comes out of a call of which only the name (or the thing that was `made`) is known."""
        counts = self.hands_window(a) or (isinstance(made, v.Unknown) and made.counts)
        has_loss = any(isinstance(x, v.Tensor) and naming.LOSS.search(x.key) for x in a.every)
        if result.norm is Norm.RAW and (counts or (has_loss and _NORMALISES.search(name))):
            return result.but(norm=Norm.UNKNOWN)
        handed = self._numbers(a) | (made.handed if isinstance(made, v.Unknown) else frozenset())
        return result.but(handed=result.handed | handed) if handed else result

    def _touch(self, name: str, a: v.Arguments, every: list[v.Value], node: s.Call) -> None:
        """What an unknown function may do to the gradients of the optimizers and models that it is given."""
        given = [x for x in every if isinstance(x, _MAY_OPTIMIZE)]
        optimizers = [o for o in map(self.run.optimizer_for, given) if o is not None]
        if optimizers and naming.OPTIMIZES.search(name):
            steps = roles.unseen(s.render(node), "only steps")
            for optimizer in optimizers:
                self.run.emit(Step, node, optimizer=optimizer.ref.id, framework=HELPER, guess=steps)
            return
        if optimizers and naming.GIVES_LOSS.search(name) and self._is_differentiated(node):
            for optimizer in optimizers:
                self.run.doubt(node, optimizer.ref.params, clears=True)
            return
        if optimizers and not naming.HARMLESS.search(name):
            self.it.gradients.opaque(frozenset(o.ref.id for o in optimizers), node)
            return
        if self.hands_gradients(name, a.args[0] if a.args else None, a, node):
            return
        grads = [x for x in every if isinstance(x, _HAS_GRADIENTS)]
        low = name.lower()
        if "clip" in low and "grad" in low and not naming.QUESTION.match(low):
            kind = ClipKind.VALUE if "value" in low else ClipKind.NORM
            plain = roles.clips_plainly(a.every)
            guess = None if plain else roles.unseen(s.render(node), "only clips")
            self.it.gradients.clip(node, a, kind=kind, api=ClipApi.CUSTOM, guess=guess)
        elif grads and "norm" in low:
            self.it.gradients.read(grads[0], node)
        elif grads and isinstance(grads[0], v.Grad) and "reduce" in low:
            guess = roles.unseen(s.render(node), "reduces gradients")
            self.it.gradients.edit(grads[0], EditKind.REDUCE, None, node, guess=guess)
        elif grads and any(w in low for w in ("scale_grad", "normalize_grad", "divide_grad", "average_grad")):
            guess = roles.unseen(s.render(node), "scales gradients")
            self.it.gradients.edit(v.Grad(grads[0].key, grads[0].params), EditKind.SCALE, None, node, guess=guess)
        elif self.may_scale_gradients(low, a):
            self.it.gradients.edit(v.Grad("gradients", Params()), EditKind.PERHAPS, None, node)
            self._doubt(every, node, clears=False)
        elif "grad" in low and any(w in low for w in ("zero_grad", "clear_grad", "reset_grad")):
            params = self.it.domain.params_of(a.args[0]) if a.args else Params()
            self.run.emit(Zero, node, params=params, guess=roles.unseen(s.render(node), "clears gradients"))
        elif naming.MAY_CHANGE_GRADIENTS.search(low) and not naming.ONLY_READS.search(low):
            self._doubt(every, node, clears=bool(naming.CLEARS.search(low)))
        elif hands_self_on(node) and any(isinstance(x, v.Instance) and not x.module for x in every):
            self.run.doubt(node, Params(), clears=True)

    def _is_differentiated(self, node: s.Call) -> bool:
        """`out = model.train_step(batch, optimizer)`, then `out["loss"].backward()`: it has made no gradients yet."""
        scopes = self.it.program.once(Scopes)
        stmt = scopes.stmt_of(node.node)
        names = {x for target in stmt.targets for x in target_names(target)} if isinstance(stmt, s.Assign) else set()
        scope = scopes.of(node.node)
        calls = (call for call in self.it.program.calls() if called(call) == "backward" and names)
        return any(
            scopes.of(call.node) is scope and isinstance(call.func, s.Attr) and names & {*identifiers(call.func.base)}
            for call in calls
        )

    def _doubt(self, every: list[v.Value], node: s.Call, *, clears: bool) -> None:
        """A function that is not seen has a model in its hands, or gradients, and a name that does not calm."""
        held = [p.params for p in every if isinstance(p, _HAS_GRADIENTS)]
        for part in every:
            module = isinstance(part, v.Model) or (isinstance(part, v.Instance) and part.module)
            if module or (isinstance(part, v.Unknown) and self.run.does(Use.OWNER, part)):
                held.append(Params(frozenset({owner(part)}), True))
        if held:
            params = held[0]
            for other in held[1:]:
                params = params.union(other)
            self.run.doubt(node, params, clears=clears)

    def hands_gradients(self, name: str, whose: v.Value | None, a: v.Arguments, node: s.Call) -> bool:
        """`get_grads(model)` from elsewhere puts gradients aside, `set_grads(model, …)` writes others."""
        if naming.NO_GRADIENTS.search(name):
            return False
        params = self.it.domain.params_of(whose) if whose is not None else Params()
        if naming.GETS_GRADIENTS.search(name):
            self.run.emit(Save, node, "", params=params)
            return True
        if naming.SETS_GRADIENTS.search(name) and (a.every or isinstance(whose, v.Model)):
            self.it.gradients.new_gradient(params, node)
            return True
        return False

    def may_scale_gradients(self, low: str, a: v.Arguments) -> bool:
        """`average_grads(model, n)`, `finish_window(model, n)`: what such a function does stands in another file."""
        if _NO_SCALING.search(low) or naming.LOSS.search(low) or not self.run.started:
            return False
        if "grad" in low and _NORMALISES.search(low):
            return True
        if naming.HARMLESS.search(low) or not self.hands_window(a):
            return False
        if any(tensors.gradients_in(x) is not None for x in a.every):
            return True
        return not _has_tensors(a.every) and any(self._holds_gradients(x) for x in a.every)

    def _holds_gradients(self, value: v.Value) -> bool:
        if isinstance(value, v.Model | v.ParamsValue) or (isinstance(value, v.Instance) and value.module):
            return True
        named = isinstance(value, v.Unknown) and bool(value.key)
        return named and (self.run.does(Use.OWNER, value) or bool(naming.MODEL.search(naming.last(value.key))))

    def wrapped_scaler(self, a: v.Arguments, node: s.Call) -> v.Value:
        """`loss_scaler(loss, optimizer, clip_grad=…)` does everything itself."""
        lent = frameworks.on_any("__call__", Thing.SCALER)
        if lent is not None and lent[1].event is Opaque:
            found = [o for o in (self.run.optimizer_for(x) for x in a.every) if o is not None]
            self.it.gradients.opaque(frozenset(o.ref.id for o in found) if found else None, node)
        return v.Unknown(s.render(node), called="scaler")

    def module_forward(self, value: v.Instance, method: str, a: v.Arguments, node: s.Call) -> v.Value:
        name = value.cls.key
        result = (
            self.criterion(name, a, node) if naming.LOSS.search(name) else self.it.gradients.forward(value, a, node)
        )
        return self.normalised_inside(value, method, a, result, node)

    def normalised_inside(self, value: v.Instance, name: str, a: v.Arguments, result: v.Value, node: s.Call) -> v.Value:
        """A module of this file may divide what it returns: its method is run to see whether it does."""
        if not isinstance(result, v.Tensor) or result.norm is not Norm.RAW or self.it.core.frame.no_grad:
            return result
        method = self.it.core.objects.function(value.cls, name)
        if method is None or not isinstance(method.node, s.Def) or not method.node.body:
            return result
        key = (value.key, id(method.node))
        if key not in self.run.own_norms:
            self.run.own_norms[key] = None  # while it is being found out
            self.run.own_norms[key] = self._run_unseen(value, method, a, node)
        inside = self.run.own_norms[key]
        return result if inside is None else self._as_inside(result, inside)

    def _run_unseen(self, value: v.Instance, method: v.Function, a: v.Arguments, node: s.Call) -> v.Tensor | None:
        """What a method returns; nothing that happens in it is told."""
        if not self._may_resize(method):
            return None
        before, reached, budget = len(self.run.events), set(self.run.reached), self.it.core.budget
        doubts = len(self.run.doubts)
        self.it.core.budget = min(budget, _SMALL_BUDGET)
        found: v.Value
        try:
            self._keep_numbers(value)
            bound = v.Function(method.node, method.outer, value, method.key)
            found = self.it.core.enter(bound, node, a)
        except Enough:
            return v.Tensor(unseen=value.cls.key)
        finally:
            del self.run.events[before:]
            del self.run.doubts[doubts:]
            self.run.reached = reached
            self.it.core.budget = budget
        if isinstance(found, v.Collection):
            parts = [found.entries.get("loss"), *found.each]
            found = next((part for part in parts if part is not None), found)
        return found if isinstance(found, v.Tensor) else None

    def _may_resize(self, method: v.Function) -> bool:
        """It divides, multiplies or adds up, or calls something that may."""
        assert isinstance(method.node, s.Def)
        for stmt in s.walk_stmts(method.node.body):
            if isinstance(stmt, s.AugAssign) and stmt.op in "/*":
                return True
            for expr in s.expressions(stmt):
                if not self.it.program.said(expr).callees.isdisjoint(_RESIZE):
                    return True
                if any(True for _ in self.it.program.callees.of_expression(expr)):
                    return True
                if any(isinstance(part, s.Bin) and part.op in "/*" for part in s.walk_expr(expr)):
                    return True
        return False

    def _keep_numbers(self, value: v.Instance) -> None:
        """The numbers that its constructor keeps; whatever else it does is not run."""
        init = self.it.core.objects.function(value.cls, "__init__")
        if value.given is None or not value.key or init is None:
            return
        given, value.given = value.given, None
        assert isinstance(init.node, s.Def)
        init.owner = value
        frame = init.outer.entered(init.node)
        frame.names = self.it.core.bound(init, given, frame)
        outer, self.it.core.frame = self.it.core.frame, frame
        try:
            for stmt in s.walk_stmts(init.node.body):
                kept = stmt.value if isinstance(stmt, s.Assign | s.ExprStmt) else None
                if kept is None or not self.it.program.said(kept).callees <= _CONVERSIONS:
                    continue
                if isinstance(stmt, s.Assign) or "register_buffer" in self.it.program.said(kept).callees:
                    self.it.run_body([stmt])
        finally:
            self.it.core.frame = outer

    def _as_inside(self, result: v.Tensor, inside: v.Tensor) -> v.Tensor:
        """A mean over a batch's own items and a weight of a term are no division by the number of micro-batches."""
        if inside.unseen:
            return result.but(unseen=inside.unseen)
        if inside.norm is Norm.SUMMED:
            return result.but(norm=Norm.SUMMED)
        if inside.norm not in (Norm.DIVIDED, Norm.WEIGHTED):
            return result
        if inside.divisors:
            return result.but(norm=inside.norm, divisor=inside.divisor, divisors=inside.divisors)
        if self._names_window(inside.divisor):
            return result.but(norm=inside.norm, divisor=inside.divisor)
        plain = inside.norm is Norm.DIVIDED and _ATTRIBUTE.fullmatch(inside.divisor)
        return result.but(norm=Norm.UNKNOWN) if plain else result

    def criterion(
        self, name: str, a: v.Arguments, node: s.Call, made: v.Value | None = None, unseen: str = ""
    ) -> v.Value:
        reduction = a.kwargs.get("reduction")
        norm = Norm.SUMMED if isinstance(reduction, v.Constant) and reduction.value == "sum" else Norm.RAW
        inherited = tensors.kept_norm(a.every)
        if inherited in (Norm.DIVIDED, Norm.DIVIDED_BY_COUNTER, Norm.WEIGHTED):
            norm = inherited
        merged = tensors.merge(self.with_models(a.every), s.render(node), norm)
        result = self.perhaps_normalised(merged or v.Tensor(s.render(node), Params(), norm), name, a, made)
        return self._run_inside(result.but(unseen=unseen) if unseen else result, a, node)

    def _run_inside(self, result: v.Tensor, a: v.Arguments, node: s.Call) -> v.Tensor:
        """`compute_loss(model, batch)`, `self.criterion(model, batch)` of what is not seen runs the wrapped model."""
        models = [x for x in a.every if isinstance(x, v.Model) and x.wrap is not Wrap.NONE]
        others = [x for x in a.every if x not in models and not isinstance(x, v.Constant)]
        if len(models) != 1 or not others or _has_tensors(others) or not naming.RUNS_MODEL.search(called(node)):
            return result
        key = owner(models[0])
        return result.but(
            model=key, wrap=models[0].wrap, forward_sync=self.run.sync_of(key), forward=self.run.site(node)
        )

    def modules_in(self, parts: Iterable[v.Value], *, all_are: bool = False) -> frozenset[str]:
        """Whose parameters are in these, as far as they are modules; `all_are`: all of them that have a name are."""
        found: set[str] = set()
        for part in parts:
            if isinstance(part, v.Collection):
                found |= self.modules_in((*part.each, *part.entries.values()), all_are=all_are)
            elif isinstance(part, v.Model) or (isinstance(part, v.Instance) and part.module):
                found.add(owner(part))
            elif isinstance(part, v.Unknown):
                module = self.run.does(Use.OWNER, part) or (all_are and "(" not in part.key)
                found |= part.params.owners or ({part.key} if module else set())
        return frozenset(found - {""})

    def with_models(self, parts: list[v.Value]) -> list[v.Value]:
        """Models among the arguments count as what the result depends on."""
        out: list[v.Value] = []
        for part in parts:
            is_model = isinstance(part, v.Model | v.Managing) or (isinstance(part, v.Instance) and part.module)
            if isinstance(part, v.Unknown) and not part.params.owners and self.run.does(Use.OWNER, part):
                is_model = True
            if is_model and not self.it.core.frame.no_grad:
                out.append(v.Unknown(part.key, params=Params(frozenset({owner(part)}), True)))
            else:
                out.append(part)
        return out


def _has_tensors(values: list[v.Value]) -> bool:
    return any(isinstance(x, v.Tensor) for x in tensors.flatten(values))
