"""What the functions of PyTorch, Python and the frameworks do, as far as gradients care."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.events import WINDOW, ClipApi, ClipKind, EditKind, Norm, OptimizerRef, Params, ScalerRef, Wrap, Zero
from gradlint.knowledge import frameworks, naming
from gradlint.knowledge import torch_api as api
from gradlint.knowledge.architectures import CONTAINERS
from gradlint.knowledge.rows import Switch, Thing
from gradlint.paths import tensors
from gradlint.paths import values as v
from gradlint.paths.groups import Parts, cuts
from gradlint.paths.run import TURNS, owner
from gradlint.python import syntax as s
from gradlint.python.binding import called, identifiers
from gradlint.python.calls import Arguments
from gradlint.python.contexts import UNSETTLED, switch

if TYPE_CHECKING:
    from gradlint.paths.interpreter import Interpreter

#: functions whose result has the same numbers in it, in another shape
_GATHERS = {
    "cat", "concat", "stack", "hstack", "vstack", "clone", "flatten", "ravel", "deepcopy", "parameters_to_vector",
    "_flatten_dense_tensors", "_unflatten_dense_tensors", "split", "chunk", "reshape",
}  # fmt: skip
_TENSOR_METHODS = ("mean", "sum", "div", "mul", "add", "true_divide", "divide", "multiply")
_NEW_GRADIENTS = {"div", "true_divide", "divide", "mul", "multiply", "add", "sub", "clamp", "clip"}
#: functions that change the gradient they are given
_IN_PLACE = {"clamp_", "clip_"}
#: what the length of a schedule is called
_MEASURES = {"norm", "vector_norm", "get_total_norm", "_foreach_norm", "mean", "abs", "max", *api.FINITE}
_LENGTHS = ("num_training_steps", "T_max", "total_steps", "total_iters", "steps_per_epoch", "step_size")
#: what holds several values
_SEVERAL = {"list", "tuple", "dict", "set", "OrderedDict", "Sequence", "Mapping", "Iterable"}
_WRAPPERS = ((api.DDP, Wrap.DDP), (api.FSDP1, Wrap.FSDP), (api.FSDP2, Wrap.FSDP2))


class Api:
    """Functions known by their dotted names."""

    def __init__(self, it: Interpreter) -> None:
        self.it = it
        self.run = it.run

    def call_dotted(self, dotted: str, a: v.Arguments, node: s.Call) -> v.Value:
        home, _, tail = dotted.rpartition(".")
        if home == "builtins":
            return self._builtin(tail, a, node)
        owned = self.it.methods.of_import(dotted, a, node)
        if owned is not None:
            return owned
        if tail == "cast" and home in ("typing", "typing_extensions") and len(a.args) == 2:
            return a.args[1]
        for handler in (self._training_object, self._gradient_function, self._context, self._plumbing):
            result = handler(dotted, tail, a, node)
            if result is not None:
                return result
        if dotted == "torch.is_grad_enabled":
            return v.Constant(not self.it.core.frame.no_grad)
        if dotted.startswith("torch."):
            return self._torch_function(dotted, tail, a, node)
        return self.it.guesses.unknown_call(dotted, a, node, imported=True)

    # -- optimizers, schedulers, scalers, models

    def _training_object(self, dotted: str, tail: str, a: v.Arguments, node: s.Call) -> v.Value | None:
        if (
            dotted.startswith(api.SCHEDULER_PREFIX)
            or api.SCHEDULER_CLASS.match(tail)
            or api.SCHEDULER_FUNCTION.match(tail)
        ):
            optimizer = next((o for o in (self.run.optimizer_for(x) for x in a.every) if o), None)
            known = dotted == tail or dotted.startswith(api.SCHEDULER_HOMES)
            return v.Scheduler(
                "", optimizer.ref.id if optimizer else None, known, per_batch=self._counts_micro_batches(node)
            )
        if api.OPTIMIZER_CLASS.match(tail) or api.TORCH_OPTIMIZER.match(dotted):
            return self.make_optimizer(tail, a, node)
        if tail in api.SCALER_CLASSES:
            return self._make_scaler(a, node)
        return self.it.frameworks.framework_function(dotted, a, node) or self._wrapper(tail, a)

    def _counts_micro_batches(self, node: s.Call) -> bool:
        """The schedule's length is a number of batches, not of updates: then it wants a step for each batch."""
        named = [node.kwargs.get(name) for name in _LENGTHS]
        values = [self.it.program.resolve(value) for value in (*named, *node.args[1:3])]
        return any(value is not None and _is_number_of_batches(value) for value in values)

    def make_optimizer(self, kind: str, a: v.Arguments, node: s.Call) -> v.Optimizer:
        first = a.get(0, "params", "parameters", "model_params", "named_parameters", "optimizer")
        if isinstance(first, v.External) and len(a.args) > 1:
            first = a.args[1]  # DistributedOptimizer(optim.SGD, params, …)
        inner = self.run.optimizer_for(first) if first is not None else None
        params = inner.ref.params if inner else self.it.domain.params_of(first) if first is not None else Params()
        if first is not None:
            self._use_up_all(first, node)
        framework = frameworks.maker(Thing.OPTIMIZER, kind)
        rate = a.kwargs.get("lr") or (a.args[1] if len(a.args) > 1 and not isinstance(first, v.External) else None)
        groups = first.each if isinstance(first, v.Collection) else []
        rates = [rate, *(_group_rate(group) for group in groups)]
        over = next((x.over for x in rates if isinstance(x, v.Known | v.Unknown) and x.over), "")
        return v.Optimizer("", OptimizerRef("", "", params, kind, framework, True, rate_over=over))

    def _use_up_all(self, value: v.Value, node: s.Node) -> None:
        self.it.gradients.use_up(value, node)
        if isinstance(value, v.Collection):
            for item in value.each:
                self._use_up_all(item, node)

    def _make_scaler(self, a: v.Arguments, node: s.Call) -> v.Scaler:
        enabled = a.kwargs.get("enabled")
        state: bool | None = True
        if isinstance(enabled, v.Constant):
            state = bool(enabled.value)
        elif enabled is not None:
            state = None if self.it.conditions.decide(enabled) else False
        return v.Scaler("", ScalerRef("", "", state, born=True))

    def _wrapper(self, tail: str, a: v.Arguments) -> v.Value | None:
        wrap = next((w for names, w in _WRAPPERS if tail in names), None)
        first = a.get(0, "module", "model")
        if wrap is not None and first is not None:
            if wrap is Wrap.FSDP2 and isinstance(first, v.Model | v.Instance):
                first.wrap = wrap
                return first
            return v.Model("", owner(first), wrap, first)
        if tail in api.TRANSPARENT and first is not None and not isinstance(first, v.Constant):
            return first
        return None

    # -- functions on gradients

    def _gradient_function(self, dotted: str, tail: str, a: v.Arguments, node: s.Call) -> v.Value | None:
        if tail in api.CLIP_NORM or tail in api.CLIP_VALUE:
            kind = ClipKind.VALUE if tail in api.CLIP_VALUE else ClipKind.NORM
            own = dotted.startswith("torch.") or dotted == tail
            return self.it.gradients.clip(node, a, kind=kind, api=ClipApi.TORCH if own else ClipApi.CUSTOM)
        if tail == "clip_grads_with_norm_":
            return self.it.gradients.clip(node, a, kind=ClipKind.NORM, api=ClipApi.CUSTOM)  # it gives back no norm
        if dotted == "torch.autograd.backward":
            first = a.get(0, "tensors") or v.Unknown("loss")
            self.it.gradients.backward(first, node, gradient=a.get(1, "grad_tensors"))
            return v.NONE
        if tail in ("all_reduce", "allreduce_", "allreduce", "reduce_scatter_tensor") and a.args:
            first = a.args[0]
            group = a.get(2, "group")
            if isinstance(first, v.Grad) and (group is None or isinstance(group, v.Constant)):
                self.it.gradients.edit(
                    first, EditKind.REDUCE, None, node
                )  # over another group it is none of DDP's business
            return v.Unknown(s.render(node), called=tail)
        if tail in _MEASURES and a.args:
            grads = [x for x in tensors.flatten(a.args) if isinstance(x, v.Grad)]
            if grads and dotted.startswith("torch."):
                self.it.gradients.read(grads[0], node)
                size = v.Unknown(s.render(node), called=tail)
                return size if tail in api.FINITE else self.it.gradients.measure(size)
        if dotted.startswith("torch.") and a.args and any(isinstance(x, v.Grad) for x in tensors.flatten(a.args)):
            made = self._gradient_arithmetic(tail, a, node)
            if made is not None:
                return made
        if tail in _GATHERS:
            found = next((x for x in tensors.flatten(a.args) if isinstance(x, v.Grad)), None)
            if found is not None:
                return v.Grad(found.key, found.params, found.wrap, found.partial, copy=True)
        if tail == "Parameter" and a.args and isinstance(a.args[0], v.Parameter):
            return a.args[0] if a.args[0].twin else tensors.twin(a.args[0], s.render(node))
        if tail == "master_params" and a.args:
            optimizer = self.run.optimizer_for(a.args[0])
            return v.ParamsValue("", optimizer.ref.params if optimizer else Params())
        return None

    def _gradient_arithmetic(self, tail: str, a: v.Arguments, node: s.Call) -> v.Value | None:
        """`torch.div(p.grad, n, out=p.grad)`, `torch._foreach_div_(grads, n)`, `torch.clamp_(p.grad, -1, 1)`."""
        grads = [x for x in tensors.flatten(a.args[:1]) if isinstance(x, v.Grad)]
        name = tail.removeprefix("_foreach_")
        out = a.kwargs.get("out")
        if not grads or (name == tail and len(a.args) + len(a.kwargs) < 2):
            return None
        rest = Arguments(a.args[1:], a.kwargs)
        if name in _IN_PLACE or (name.endswith("_") and name != tail):
            if name == "zero_":
                self.run.emit(Zero, node, params=grads[0].params)
            else:
                self.it.gradients.grad_method(grads[0], name, rest, node)
            return v.NONE
        made = self.it.gradients.grad_method(grads[0], name, rest, node) if name in _NEW_GRADIENTS else None
        if isinstance(made, v.Grad) and isinstance(out, v.Grad):
            self.it.gradients.write_grad(out, node, made, None)
        return made

    # -- contexts

    def _context(self, dotted: str, tail: str, a: v.Arguments, node: s.Call) -> v.Value | None:
        mode = a.get(0, "mode")
        found = switch(dotted, mode.value if isinstance(mode, v.Constant) else None if mode is None else UNSETTLED)
        if found is Switch.AUTOCAST:
            return self._autocast(dotted, a, node)
        if found is None and tail in ("nullcontext", "suppress", "contextmanager", "dummy_context"):
            found = Switch.OTHER
        elif tail == "ExitStack":
            found = Switch.STACK
        return v.Context(s.render(node), found, self.run.site(node)) if found is not None else None

    def _autocast(self, dotted: str, a: v.Arguments, node: s.Call) -> v.Context:
        enabled = a.kwargs.get("enabled") or (
            a.get(0) if "amp.autocast" in dotted and dotted.startswith("torch.c") else None
        )
        state: bool | None = True
        if isinstance(enabled, v.Constant) and isinstance(enabled.value, bool):
            state = enabled.value
        elif enabled is not None and not isinstance(enabled, v.Constant):
            state = None if self.it.conditions.decide(enabled) else False
        return v.Context(s.render(node), Switch.AUTOCAST, self.run.site(node), enabled=state)

    def context_method(self, base: v.Context, name: str, a: v.Arguments, node: s.Call) -> v.Value:
        if base.kind is Switch.STACK and name == "enter_context" and a.args and isinstance(a.args[0], v.Context):
            self.run.open(a.args[0])
            return a.args[0].value or a.args[0]
        if name in ("__enter__", "__exit__") and base.kind is Switch.NO_SYNC:
            self.run.attributes[(base.model or "", "require_backward_grad_sync")] = v.Unknown("entered by hand")
        return v.Unknown(s.render(node))

    # -- Python's own

    def _plumbing(self, dotted: str, tail: str, a: v.Arguments, node: s.Call) -> v.Value | None:
        first = a.get(0)
        if tail in ("chain", "from_iterable") and "chain" in dotted:
            parts = [p for p in tensors.flatten(a.args) if not isinstance(p, v.Constant)]
            params = self.it.domain.params_of(v.Collection(list(parts))) if parts else Params()
            return v.ParamsValue("", params, True)
        if tail in ("tqdm", "trange", "track", "auto") and (first is not None or tail == "trange"):
            return self._builtin("range" if tail == "trange" else "tqdm", a, node)
        if tail == "count" and dotted.startswith("itertools"):
            return self._count(a, node)
        if tail == "cycle" and dotted.startswith("itertools") and isinstance(first, v.Collection):
            return v.Unknown(s.render(node))  # one of its entries, another one in each turn
        if tail == "islice" and dotted.startswith("itertools") and len(a.args) == 2:
            return _group(s.render(node), a.args[0], a.args[1])
        if tail in ("batched", "chunked") and dotted.partition(".")[0] in ("itertools", "more_itertools") and first:
            groups = _group(f"{s.render(node)}[*]", first, a.args[1] if len(a.args) > 1 else v.Unknown(""))
            return v.Collection([v.Rest(groups)], {}, v.Kind.GENERATOR, node)
        if tail in ("cycle", "islice", "repeat") and dotted.startswith("itertools"):
            return v.Counted(s.render(node), exact=False, inner=first)
        if tail in ("exit", "_exit"):
            return v.Never()
        return None

    def _builtin(self, name: str, a: v.Arguments, node: s.Call) -> v.Value:
        first = a.get(0, "iterable")
        if name == "range":
            return self._range(a, node)
        if name == "enumerate" and first is not None:
            return self._enumerate(first, a, node)
        if name in ("tqdm", "iter", "reversed", "sorted", "set"):
            return self._same_elements(first, name, node)
        if name in ("list", "tuple"):
            if isinstance(first, v.ParamsValue):
                empty = first.generator and first.used_by is not None
                made = v.ParamsValue("", first.params, empty, first.used_by, first.named, first.wrap, first.partial)
                self.it.gradients.use_up(first, node)
                return made
            if isinstance(first, v.Collection):
                return v.Collection(list(first.items), dict(first.entries), v.Kind(name), first.expr)
            return v.Collection() if first is None else first
        if name in ("filter", "map") and len(a.args) > 1:
            return self._filtered(name, a, node)
        if name == "len":
            known = _length(first)
            return v.Known(known or TURNS, s.render(node), exact=False, made_up=known is None)
        return self._builtin_value(name, a, node)

    def _builtin_value(self, name: str, a: v.Arguments, node: s.Call) -> v.Value:
        first = a.get(0)
        if name in ("int", "float", "bool", "round", "abs") and first is not None:
            return first
        if name in ("max", "min") and len(a.args) == 2:
            numbers = [self.it.conditions.number(x) for x in a.args]
            if all(n is not None for n in numbers):
                values = [n.value for n in numbers if n is not None and isinstance(n.value, int | float)]
                return v.Known(max(values) if name == "max" else min(values), s.render(node), exact=False)
            return next((x for x in a.args if isinstance(x, v.Unknown)), v.Unknown(s.render(node)))
        if name == "sum" and first is not None:
            merged = tensors.merge([first], s.render(node), tensors.kept_norm([first]))
            return merged or v.Unknown(s.render(node), called="sum")
        if name == "next" and first is not None:
            return v.Unknown(f"next({first.key})", called="next")
        if (
            name == "getattr"
            and len(a.args) > 1
            and isinstance(a.args[1], v.Constant)
            and isinstance(a.args[1].value, str)
        ):
            return self.it.core.attribute(a.args[0], s.Attr(node.node, node, a.args[1].value))
        if name == "setattr" and len(a.args) == 3 and len(node.args) == 3 and isinstance(a.args[1], v.Constant):
            target = s.Attr(node.node, node.args[0], str(a.args[1].value))
            self.it.core.assign(target, a.args[2], node.args[2])
        if name == "zip":
            rows = self._zipped(a)
            if len(rows) == 1:
                return v.Counted(s.render(node), inner=v.Collection(list(a.args)), loader=True)
            return v.Collection(rows, expr=node)
        if name in ("hasattr", "isinstance") and len(a.args) == 2:
            known = self._about_kind(a.args[0], a.args[1]) if name == "isinstance" else None
            known = self._about_wrapper(name, a.args[0], a.args[1]) if known is None else known
            if known is not None:
                return v.Known(known, s.render(node))
        if name in ("sum", "any", "all", "dict"):
            for value in a.every:
                self.it.gradients.use_up(value, node)
        return v.Unknown(s.render(node), called=name)

    @staticmethod
    def _about_kind(value: v.Value, what: v.Value) -> bool | None:
        """`isinstance(optimizer, dict)`: whether it is one or several."""
        names = {kind.key.rpartition(".")[2] for kind in (what.each if isinstance(what, v.Collection) else [what])}
        if not names <= _SEVERAL:
            return None
        if isinstance(value, v.Collection) and value.kind.value in _SEVERAL:
            return value.kind.value in names
        return False if isinstance(value, v.Optimizer | v.Model | v.Scheduler | v.Scaler | v.Managing) else None

    @staticmethod
    def _about_wrapper(name: str, value: v.Value, what: v.Value) -> bool | None:
        """`hasattr(model, "clip_grad_norm_")`, `isinstance(model, FSDP)` of a model whose wrapper is known."""
        if not isinstance(value, v.Model) or value.wrap is Wrap.NONE:
            return None
        if name == "hasattr" and isinstance(what, v.Constant):
            has = {"clip_grad_norm_": (Wrap.FSDP,), "no_sync": (Wrap.DDP, Wrap.FSDP)}.get(str(what.value))
            return None if has is None else value.wrap in has
        tail = what.key.rpartition(".")[2]
        if tail in api.FSDP1 or tail in api.DDP:
            return (value.wrap is Wrap.FSDP) == (tail in api.FSDP1) and value.wrap is not Wrap.FSDP2
        return None

    def _zipped(self, a: v.Arguments) -> list[v.Value]:
        columns = [self.it.domain.elements(x) for x in a.args]
        size = max((len(c) for c in columns), default=1)
        return [v.Collection([c[min(n, len(c) - 1)] for c in columns if c], {}, v.Kind.TUPLE) for n in range(size)]

    def _range(self, a: v.Arguments, node: s.Call) -> v.Value:
        numbers = [self.it.conditions.number(x) for x in a.args]
        start, stop = (numbers[0], numbers[1]) if len(numbers) > 1 else (None, numbers[0] if numbers else None)
        exact = len(a.args) < 2 or start is not None
        first = int(start.value) if start is not None and isinstance(start.value, int) else 0
        bound = a.args[1] if len(a.args) > 1 else (a.args[0] if a.args else v.Unknown("?"))
        turns: int | None = None
        if stop is not None and isinstance(stop.value, int) and not v.known(stop).counter and exact:
            turns = max(0, stop.value - first)
            if turns > 6:
                turns = None
        window = bound.key if len(a.args) == 1 or first in (0, 1) else ""
        if len(a.args) > 2:
            turns = WINDOW  # range(0, n, micro): parts of a batch
            window = f"{bound.key} / {a.args[2].key}"
            return v.Counted(s.render(node), first, exact, turns, window=window)
        size = v.whole_number(bound) if len(a.args) == 1 or first == 0 else None
        return v.Counted(s.render(node), first, exact, turns, window=window, size=size)

    def _count(self, a: v.Arguments, node: s.Call) -> v.Value:
        start = a.get(0, "start")
        number = self.it.conditions.number(start) if start is not None else None
        begin = int(number.value) if number is not None and isinstance(number.value, int) else 0
        return v.Counted(s.render(node), begin, exact=start is None or number is not None)

    def _enumerate(self, first: v.Value, a: v.Arguments, node: s.Call) -> v.Value:
        start = a.get(1, "start")
        number = self.it.conditions.number(start) if start is not None else None
        begin = int(number.value) if number is not None and isinstance(number.value, int) else 0
        exact = start is None or number is not None
        turns = first.turns if isinstance(first, v.Counted) else None
        loader = not isinstance(first, v.Counted) or first.loader
        return v.Counted(s.render(node), begin, exact, turns, 1, first, True, loader=loader)

    def _same_elements(self, first: v.Value | None, name: str, node: s.Call) -> v.Value:
        if first is None:
            return v.Unknown(s.render(node))
        if isinstance(first, v.ParamsValue) and name == "iter":
            return v.ParamsValue("", first.params, True, first.used_by, first.named, first.wrap, first.partial)
        return first

    def _filtered(self, name: str, a: v.Arguments, node: s.Call) -> v.Value:
        source = a.args[1]
        if isinstance(source, v.ParamsValue):
            self.it.gradients.use_up(source, node)
            return v.ParamsValue("", source.params, True, None, source.named, source.wrap, source.partial)
        if isinstance(source, v.Unknown) and name == "filter":
            return v.ParamsValue("", self.it.domain.params_of(source), True)
        if isinstance(source, v.Collection) and isinstance(a.args[0], v.Function):
            function = a.args[0]
            return v.Collection([self.it.core.call(function, node, Arguments([x])) for x in source.each], expr=node)
        return v.Unknown(s.render(node), called=name)

    # -- torch

    def _torch_function(self, dotted: str, tail: str, a: v.Arguments, node: s.Call) -> v.Value:
        """Any other torch function: a computation from its arguments."""
        text = s.render(node)
        if self.it.core.frame.no_grad or tail.endswith("_like"):
            return v.Unknown(text, called=tail)  # of a tensor's shape no gradient is made
        first = a.get(0)
        if isinstance(first, v.Tensor) and tail in _TENSOR_METHODS:
            return tensors.method(first, tail, a.args[1:], text)
        if tail[:1].isupper():
            # a module: calling it computes
            if "Loss" in tail:
                return v.Partial(v.External(f"torch.nn.functional.{tail.lower()}"), Arguments([], a.kwargs), node)
            return self._torch_object(dotted, a, node)
        if naming.LOSS.search(tail) or tail in ("cross_entropy", "binary_cross_entropy", "kl_div"):
            reduction = a.kwargs.get("reduction")
            summed = isinstance(reduction, v.Constant) and reduction.value == "sum"
            norm = Norm.SUMMED if summed else Norm.RAW
            return tensors.merge(a.every, text, norm) or v.Tensor(text, Params(), norm)
        merged = tensors.merge(a.every, text, tensors.kept_norm(a.every))
        if tail in ("cat", "concat") and _puts_into_slices(node):
            # one fresh slice among cached ones: each micro-batch adds its part of one large loss
            merged = (merged or v.Tensor(text, Params())).but(norm=Norm.WEIGHTED)
        parts = Parts.MICRO if cuts(tail, [*node.args[2:], node.kwargs.get("dim")]) else Parts.UNKNOWN
        return merged or v.Unknown(text, called=tail, parts=parts)

    def _torch_object(self, dotted: str, a: v.Arguments, node: s.Call) -> v.Value:
        """A layer computes when it is called; what a distribution gives is made of its parameters."""
        made_of = tensors.merge(a.every, dotted) if dotted.startswith(api.DISTRIBUTIONS) else None
        params = made_of.params if made_of is not None else Params(known=True)
        if naming.last(dotted) in CONTAINERS:
            params = Params(self.it.guesses.modules_in(a.every, all_are=True), True)
        return v.Unknown(s.render(node), called=dotted, params=params)


def _is_number_of_batches(length: s.Expr) -> bool:
    """`epochs * len(loader)`, `epochs * (samples // batch_size) // world_size`: nothing in it speaks of N."""
    names = [*identifiers(length)]
    parts = list(s.walk_expr(length))
    divisors = [[*identifiers(part.right)] for part in parts if isinstance(part, s.Bin) and part.op in ("/", "//")]
    if any(naming.MICRO.search(name) for name in names):
        return False
    by_batch = [any(naming.BATCH_LENGTH.search(name) for name in divisor) for divisor in divisors]
    if divisors:
        others = (names for names, batch in zip(divisors, by_batch, strict=True) if not batch)
        return any(by_batch) and all(any(naming.RANKS.search(name) for name in names) for names in others)
    return any(isinstance(part, s.Call) and called(part) == "len" for part in parts)


def _group_rate(group: v.Value) -> v.Value | None:
    return group.entries.get("lr") if isinstance(group, v.Collection) else None


def _puts_into_slices(call: s.Call) -> bool:
    """`torch.cat(cached[:i] + [fresh] + cached[i + 1 :])`."""
    parts = [part for arg in call.args for part in s.walk_expr(arg)]
    sums = any(isinstance(part, s.Bin) and part.op == "+" for part in parts)
    return sums and any(isinstance(part, s.Item) and isinstance(part.index, s.Other) for part in parts)


def _length(value: v.Value | None) -> int | None:
    if isinstance(value, v.Collection) and value.kind is not v.Kind.GENERATOR and value.items and value.whole:
        return len(value.items)
    return None


def _group(text: str, source: v.Value, size: v.Value) -> v.Value:
    """So many of what somebody goes over."""
    inner = v.Unknown(source.key) if isinstance(source, v.Collection) else source
    return v.Counted(text, exact=False, inner=inner, window=size.key, size=v.whole_number(size))
