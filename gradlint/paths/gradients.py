"""Turns method calls on optimizers, scalers, losses, parameters and gradients into events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.events import (
    PLAIN,
    Backward,
    Clip,
    ClipApi,
    ClipKind,
    Edit,
    EditKind,
    Framework,
    Guess,
    Norm,
    Opaque,
    Params,
    Read,
    Save,
    Schedule,
    Site,
    Step,
    Sync,
    Unscale,
    Update,
    Wrap,
    Zero,
)
from gradlint.knowledge import frameworks, naming
from gradlint.knowledge import torch_api as api
from gradlint.knowledge.rows import Switch, Thing
from gradlint.paths import tensors
from gradlint.paths import values as v
from gradlint.paths.run import owner
from gradlint.python import syntax as s
from gradlint.python.binding import called
from gradlint.python.calls import Arguments
from gradlint.python.constants import as_float
from gradlint.python.scope import Scopes

if TYPE_CHECKING:
    from gradlint.paths.interpreter import Interpreter

_READS = {"norm", "abs", "mean", "max", "min", "std", "sum", "square", "pow", "cpu", *api.FINITE}
_EDITS = {
    "div_": EditKind.DIVIDE, "true_divide_": EditKind.DIVIDE, "divide_": EditKind.DIVIDE, "mul_": EditKind.SCALE,
    "multiply_": EditKind.SCALE, "add_": EditKind.NOISE, "sub_": EditKind.NOISE,
    "copy_": EditKind.OTHER, "normal_": EditKind.NOISE, "nan_to_num_": EditKind.OTHER,
}  # fmt: skip
#: other names for the same numbers, and copies of them
_SAME = {"detach", "data", "float", "view", "flatten", "reshape", "to", "detach_", "contiguous", "view_as"}
_COPIES = {"clone", "numpy", "ravel", "half", "double"}
#: methods that give a new gradient, and what becomes of it
_OPERATORS = {
    "div": "/", "true_divide": "/", "divide": "/", "mul": "*", "multiply": "*", "add": "+", "sub": "-",
}  # fmt: skip
_SIGNS = "signs"
_BY_OPERATOR = {
    "/": EditKind.DIVIDE, "*": EditKind.SCALE, "+": EditKind.NOISE, "-": EditKind.NOISE, _SIGNS: EditKind.CLAMP,
}  # fmt: skip
#: what `p.grad.clamp(-1, 1)` gives was made by
_CLAMP = "clamp"

#: a limit that nothing reaches
_UNLIMITED = {"inf", "Inf", "math.inf", "torch.inf", "numpy.inf"}


class Gradients:
    """The events themselves."""

    def __init__(self, it: Interpreter) -> None:
        self.it = it
        self.run = it.run

    # -- optimizer, scheduler, scaler

    def idle(self, framework: Framework) -> bool:
        """Some frameworks' prepared objects do nothing inside a window."""
        return framework.windows and self.run.window_full is False

    def optimizer_method(self, optimizer: v.Optimizer, name: str, a: v.Arguments, node: s.Call) -> v.Value:
        ref = self.run.optimizers.get(optimizer.ref.id, optimizer.ref)
        scales = any(isinstance(x, v.Scaler) for x in a.every)
        if name == "step" and not scales:
            self.step(optimizer, node, a.get(0, "closure"))
        elif name == "zero_grad":
            if not self.idle(ref.framework):
                self.run.emit(Zero, node, params=ref.params, optimizer=ref.id)
        elif (lent := frameworks.on_any(name, Thing.OPTIMIZER)) is not None:
            framework, row = lent
            if row.event is Backward:
                self.backward(a.at(row.loss) or v.Unknown("loss"), node, framework=framework)
            elif row.event is Clip:
                self.run.emit(Clip, node, params=ref.params, api=ClipApi.MASTER, target=optimizer.key)
        elif name in ("multiply_grads", "scale_grads", "average_grads", "normalize_grads", "scale_gradients"):
            self.edit(v.Grad("gradients", ref.params), EditKind.PERHAPS, a.get(0), node)
        elif name in ("step", "synchronize", "reduce_gradients") or self.is_own_way(name):
            self.opaque(frozenset({ref.id}), node, scales=scales)  # torch's own steps are handed no scaler
        return v.Unknown(s.render(node), called=name)

    @staticmethod
    def is_own_way(name: str) -> bool:
        """A method that torch's optimizers have not: `pre_step` of a class that wraps one may clear, or put aside."""
        return (
            naming.touches_gradients(name) and name not in api.MODULE_PASSTHROUGH and not name.startswith("register_")
        )

    def step(
        self, optimizer: v.Optimizer, node: s.Node, closure: v.Value | None, scaler: v.Scaler | None = None
    ) -> None:
        ref = self.run.optimizers.get(optimizer.ref.id, optimizer.ref)
        if isinstance(closure, v.Function):
            call = node if isinstance(node, s.Call) else s.Call(node.node, s.Name(node.node, ""), [], {})
            self.it.core.call(closure, call, Arguments())
        elif closure is not None and not isinstance(closure, v.Constant):
            lent = frameworks.on_any("step", Thing.OPTIMIZER, naming.last(closure.key))
            if lent is not None:
                self.run.manage(optimizer, lent[0])
                ref = optimizer.ref
        if self.idle(ref.framework):
            return
        guard = next((g for g in reversed(self.run.guards) if g.window), None)
        enabled = scaler is not None and scaler.ref.enabled is not False
        self.run.emit(
            Step, node, optimizer=ref.id, scaler=scaler.ref if scaler and enabled else None, framework=ref.framework,
            exact=guard.exact if guard else True, boundary=guard.text if guard else "",
            guard=guard.site if guard else None,
            window=guard.window if guard else "", modulo=guard.modulo if guard else False,
            guess=guard.guess if guard else None,
            size=self.run.size_of(guard.window) if guard else None,
            counted_in=self.run.counted_in.get(guard.window, guard.site.path) if guard else "",
        )  # fmt: skip

    def scheduler_step(self, scheduler: v.Scheduler, node: s.Call) -> None:
        if self.idle(scheduler.framework):
            return
        self.run.emit(
            Schedule, node, optimizer=scheduler.optimizer, torch=scheduler.torch, framework=scheduler.framework,
            per_batch=scheduler.per_batch,
        )  # fmt: skip

    def scaler_method(self, scaler: v.Scaler, name: str, a: v.Arguments, node: s.Call) -> v.Value:
        off = scaler.ref.enabled is False
        first = a.get(0, "optimizer", "outputs")
        if name != "update" and isinstance(first, v.Constant) and first.value is None:
            return v.Unknown(s.render(node))  # on this way there is no optimizer: nothing is trained
        if name == "scale":
            loss = first or v.Unknown("loss")
            tensor = self.as_loss(loss)
            return tensor if off else tensor.but(scaler=scaler.ref)
        optimizer = self.run.optimizer_for(first) if first is not None else None
        if name == "step" and first is not None:
            if optimizer is None:
                optimizer = self.run.optimizer_for(v.Unknown(f"optimizer {first.key}"))
            if optimizer is not None:
                self.step(optimizer, node, a.get(1, "closure"), scaler)
        elif name == "unscale_" and not off:
            self.run.emit(Unscale, node, scaler=scaler.ref, optimizer=optimizer.ref.id if optimizer else None)
        elif name == "update" and not off:
            self.run.emit(Update, node, scaler=scaler.ref)
        return v.Unknown(s.render(node), of_scale=name == "get_scale")

    # -- backward

    def as_loss(self, value: v.Value) -> v.Tensor:
        if isinstance(value, v.Collection):
            value = tensors.merge(value.each, value.key, tensors.kept_norm(value.each)) or value
        if isinstance(value, v.Tensor):
            return value
        params = value.params if isinstance(value, v.Unknown) and value.params.owners else Params()
        return v.Tensor(value.key, params, Norm.UNKNOWN)

    def backward(
        self, loss: v.Value, node: s.Call, *, framework: Framework = PLAIN, divides: bool = False,
        by: v.Managing | None = None, gradient: v.Value | None = None, guess: Guess | None = None,
    ) -> None:  # fmt: skip
        """`by`: the object that divides; `gradient`: what it is started with instead of one."""
        tensor = self.as_loss(loss)
        if gradient is not None:
            tensor = tensors.weighted(tensor, gradient)
            if isinstance(gradient, v.Tensor) and tensor.scaler is None:
                tensor = tensor.but(scaler=gradient.scaler)  # `features.backward(scaler.scale(gradient))`
        params = tensor.params if tensor.params.owners else Params()
        if tensor.norm is Norm.RAW and any(hooked.may_meet(params) for hooked in self.run.hooked):
            tensor = tensor.but(norm=Norm.WEIGHTED)
        autocast = self.run.autocast()
        key = tensor.model or ""
        no_sync = self.run.no_sync() or self.run.window(key)
        self.run.emit(
            Backward, node, params=params, scaler=tensor.scaler, norm=tensor.norm, loss=tensor.key or "loss",
            divisor=tensor.divisor, divisor_value=tensor.divisor_value, autocast=autocast.site if autocast else None,
            model=tensor.model, wrap=tensor.wrap, sync=self.run.sync_of(key), forward_sync=tensor.forward_sync,
            no_sync=no_sync.site if no_sync else None, forward=tensor.forward,
            framework=tensor.framework if framework is PLAIN else framework,
            managed_division=divides, managed_by=by.window if by else "", managed_size=by.size if by else None,
            divisors=tensor.divisors, handed=tensor.handed, unseen=tensor.unseen, guess=guess,
            managed_scale=by is not None and by.precision in naming.SCALED_PRECISION,
        )  # fmt: skip

    # -- gradients by hand

    def grad_method(self, grad: v.Grad, name: str, a: v.Arguments, node: s.Call) -> v.Value:
        if name == "zero_" or (name == "fill_" and _is_number(a.get(0), 0)):
            if not self.is_partial(grad):
                self.run.emit(Zero, node, params=grad.params)
        elif name in ("clamp_", "clip_"):
            if _limits_size(a):
                self._clamp(grad, a.get(1, "max"), node)
            else:
                self.edit(grad, EditKind.CLAMP, None, node)
        elif name in ("clamp", "clip") and not grad.op:
            op = _CLAMP if _limits_size(a) else _SIGNS
            return v.Grad(grad.key, grad.params, grad.wrap, grad.partial, op, a.get(1, "max"), True)
        elif name == "copy_" and not grad.copy:
            self._overwrite(grad, a.get(0) or v.Unknown(), node, s.render(node))
        elif name in _EDITS:
            words = s.render(node.args[0]) if len(node.args) == 1 else ""
            self.edit(grad, _EDITS[name], a.get(0), node, words=words)
        elif name in _OPERATORS and a.args:
            return v.Grad(grad.key, grad.params, grad.wrap, grad.partial, _OPERATORS[name], a.args[0], True)
        elif name in _READS:
            self.read(grad, node)
            made = v.Unknown(s.render(node), grads=grad.params if name == "cpu" else None)
            return made if name in api.FINITE else self.measure(made)
        elif name in _SAME:
            return grad
        elif name in _COPIES:
            return v.Grad(grad.key, grad.params, grad.wrap, grad.partial, grad.op, grad.by, True)
        return v.Unknown(s.render(node))

    def _clamp(self, grad: v.Grad, limit: v.Value | None, node: s.Expr, text: str | None = None) -> None:
        threshold = as_float(limit.value) if isinstance(limit, v.Constant) else None
        self.run.emit(
            Clip, node, text, params=grad.params, kind=ClipKind.VALUE, api=ClipApi.CUSTOM, threshold=threshold,
            target=grad.key,
        )  # fmt: skip

    def is_partial(self, grad: v.Grad) -> bool:
        """Only some of the parameters are meant: a frozen layer, a filtered list."""
        return grad.partial or self.run.partial > 0

    def edit(
        self, grad: v.Grad, kind: EditKind, by: v.Value | None, node: s.Expr, text: str | None = None, *,
        words: str = "", guess: Guess | None = None, fresh: bool | None = None, source: Params | None = None,
    ) -> None:  # fmt: skip
        """`text` is the whole statement where `node` is only what it assigns to; `words` are those for `by`."""
        if self.is_partial(grad) or grad.copy:
            return
        shown, said, number = text or s.render(node), by.key if by else "", v.number_of(by)
        if tensors.limits(kind, by):
            self.run.emit(Clip, node, shown, params=grad.params, api=ClipApi.OWN, target=grad.key)
            return
        if kind is EditKind.SCALE:
            inverse = tensors.inverse_of(by)
            if inverse is not None:
                kind, (said, number) = EditKind.DIVIDE, inverse
            else:
                number = 1 / number if number else None
        if fresh is None:
            fresh = kind is EditKind.NOISE and (by is None or tensors.gradients_in(by) is None)
        self.run.emit(
            Edit, node, shown, params=grad.params, kind=kind, by=said, wrap=grad.wrap, number=number, words=words,
            fresh=fresh, guess=guess, unscales=isinstance(by, v.Unknown) and by.of_scale, source=source,
        )  # fmt: skip

    def read(self, grad: v.Grad | v.ParamsValue, node: s.Expr) -> None:
        if isinstance(grad, v.Grad) and grad.copy and "grad" not in self.it.program.said(node).names:
            return  # a copy of what was there once
        self.run.emit(Read, node, params=grad.params, finite=isinstance(node, s.Call) and called(node) in api.FINITE)

    def measure(self, made: v.Unknown) -> v.Unknown:
        self.run.measures = made.of_norm = True
        return made

    def put_aside(self, value: v.Value, node: s.Expr, *, alias: bool = False) -> v.Value:
        """Gradients that are kept; what was `p.grad` under another name (`alias`) is kept only if it is a copy."""
        held = tensors.gradients_in(value, copies=alias)
        if held is None:
            return value
        self.run.emit(Save, node, "", params=held)
        if alias or tensors.gradients_in(value, copies=True) is None:
            return value
        return v.Unknown(s.render(node), called="copy")  # in a list or a sum they are numbers like others

    def new_gradient(
        self, params: Params, node: s.Node, text: str | None = None, *, source: Params | None = None
    ) -> None:
        made = [self.run.made.get(owner, frozenset()) for owner in source.owners] if source is not None else []
        self.run.emit(
            Edit, node, text, params=params, kind=EditKind.NEW, fresh=True, source=source,
            made_in=frozenset[int]().union(*made),
        )  # fmt: skip

    def assign_grad(self, base: v.Value, target: s.Attr, value: v.Value, source: s.Expr | None) -> None:
        """`p.grad = None` clears, `p.grad = p.grad / n` edits."""
        if not isinstance(base, v.Parameter | v.Unknown | v.Grad):
            if not (isinstance(value, v.Constant) and value.value is None):
                self.new_gradient(
                    self.it.domain.params_of(base), target
                )  # of a tensor that was made here, of one layer
            return
        grad = self.it.core.attribute(base, s.Attr(target.node, target.base, "grad"))
        if not isinstance(grad, v.Grad) or grad.copy:
            return
        if isinstance(value, v.Constant) and value.value is None:
            if not self.is_partial(grad):
                self.run.emit(Zero, target, f"{s.render(target)} = None", params=grad.params)
            return
        self.write_grad(grad, target, value, source)

    def write_grad(self, grad: v.Grad, target: s.Expr, value: v.Value, source: s.Expr | None) -> None:
        """`p.grad = …`, `p.grad.data = …`, `p.grad[:] = …`."""
        if isinstance(value, v.Unknown) and naming.last(value.called) == "zeros_like":
            if not self.is_partial(grad):
                self.run.emit(Zero, target, f"{s.render(target)} = {value.key}", params=grad.params)
            return
        whole = f"{s.render(target)} = {s.render(source)}" if source is not None else None
        self._overwrite(grad, value, target, whole, source)

    def _overwrite(
        self, grad: v.Grad, value: v.Value, node: s.Expr, text: str | None, source: s.Expr | None = None
    ) -> None:
        """A value in the place of a gradient: made of that gradient, or another one altogether."""
        reads = _reads_gradient(source if source is not None else node, whole=source is not None)
        held = tensors.gradients_in(value)
        if held is not None and not held.may_meet(grad.params):
            self.run.emit(Save, node, "", params=held)  # one network's gradients are handed to another
            self.new_gradient(grad.params, node, text, source=held)
        elif not isinstance(value, v.Grad) and not reads:
            self.new_gradient(grad.params, node, text)
        elif isinstance(value, v.Grad) and value.op == _CLAMP:
            self._clamp(grad, value.by, node, text)
        else:
            op, by = (value.op, value.by) if isinstance(value, v.Grad) and value.op else ("", value)
            self.edit(grad, _BY_OPERATOR.get(op, EditKind.OTHER), by, node, text, fresh=not reads, source=held)

    def hook(self, base: v.Value, function: v.Value | None, node: s.Call) -> None:
        """`p.register_hook(lambda g: g / n)`: every backward's gradient is divided on its way."""
        if function is None or not self._scales(base, function, node):
            return
        if isinstance(base, v.Tensor):
            if base.norm is Norm.RAW:
                base.norm = Norm.WEIGHTED
            return
        self.run.hooked.append(base.params if isinstance(base, v.Parameter) else Params())

    def _scales(self, base: v.Value, function: v.Value, node: s.Call) -> bool:
        """Whether a hook may multiply or divide what it is given; of one from elsewhere nobody knows."""
        if not isinstance(function.func if isinstance(function, v.Partial) else function, v.Function):
            return True
        params = base.params if isinstance(base, v.Parameter) else Params()
        before, reached = len(self.run.events), set(self.run.reached)
        handed = base if "accumulate" in s.render(node.func) else v.Grad("the gradient", params)
        result = self.it.core.call(function, node, Arguments([handed]))
        edits = [e for e in self.run.events[before:] if isinstance(e, Edit)]
        del self.run.events[before:]
        self.run.reached = reached
        if (isinstance(result, v.Grad) and result.op in ("/", "*")) or isinstance(result, v.Unknown):
            return True  # or made into something that is not followed
        return any(e.kind in (EditKind.DIVIDE, EditKind.SCALE) for e in edits)

    def aug_assign_grad(self, grad: v.Grad, stmt: s.AugAssign, value: v.Value) -> None:
        text = f"{s.render(stmt.target)} {stmt.op}= {s.render(stmt.value)}"
        words = s.render(stmt.value)
        self.edit(grad, _BY_OPERATOR.get(stmt.op, EditKind.OTHER), value, stmt.target, text, words=words)

    # -- clipping

    def clip(
        self, node: s.Call, a: v.Arguments, *, kind: ClipKind, api: ClipApi, framework: Framework = PLAIN,
        guess: Guess | None = None,
    ) -> v.Value:  # fmt: skip
        target = a.get(0, "parameters", "params", "model", "optimizer")
        limit = a.get(1, "max_norm", "clip_value", "clip_val", "max_grad_norm", "gradient_clip_val", "clip_grad")
        value = limit.value if isinstance(limit, v.Constant) else None
        threshold = as_float(value)
        algorithm = a.kwargs.get("gradient_clip_algorithm")
        if algorithm is not None and not (isinstance(algorithm, v.Constant) and algorithm.value == "norm"):
            threshold = None  # it may limit values
        if api is ClipApi.CUSTOM and isinstance(limit, v.Constant) and limit.value is None:
            return self.measure(v.Unknown(s.render(node), called="norm"))  # no limit: it only measures
        if api is ClipApi.CUSTOM and _is_relative(naming.last(s.render(node.func)), a):
            threshold = None
        usual = self._default(limit) if threshold is None and api is not ClipApi.CUSTOM else None
        exhausted: Site | None = None
        if isinstance(target, v.ParamsValue) and target.generator:
            exhausted = target.used_by
            target.used_by = target.used_by or self.run.site(node)
        params = self.clip_params(target)
        if value in _UNLIMITED or (limit is not None and limit.key in _UNLIMITED):
            self.run.emit(Read, node, params=params)  # it only measures
            return self.measure(v.Unknown(s.render(node), called="norm"))
        self.run.emit(
            Clip, node, params=params, kind=kind, api=api, threshold=threshold if usual is None else usual,
            by_default=usual is not None, exhausted_by=exhausted,
            wrap=self.run.wrap_of(target) if target is not None else Wrap.NONE, target=target.key if target else "",
            before=self.run.behind, framework=framework, guess=guess, handed=self._is_handed(node, limit),
            at_scale=any(isinstance(x, v.Unknown) and x.of_scale for x in a.every),
            limit=limit.key if limit is not None else "",
        )  # fmt: skip
        return v.Unknown(s.render(node), called="clip")

    def _is_handed(self, node: s.Call, limit: v.Value | None) -> bool:
        """Whether a limit is a parameter of the function that runs, which whoever called it has chosen."""
        names = {x.id for x in (*node.args, *node.kwargs.values()) if isinstance(x, s.Name)}
        given = names & {param.name for param in self.it.core.frame.scope.params}
        return limit is not None and any(self.it.core.frame.names.get(name) is limit for name in given)

    def _default(self, limit: v.Value | None) -> float | None:
        """A limit that nobody handed to the function where this path begins, nor hands to it elsewhere in the file."""
        if not isinstance(limit, v.Unknown) or limit.scope is None or limit.key in limit.scope.names:
            return None
        param = limit.scope.param(limit.key)
        if param is None or not isinstance(param.default, s.Const):
            return None
        if any(True for _ in limit.scope.program.once(Scopes).handed(limit.key, limit.scope)):
            return None
        return as_float(param.default.value)

    def clip_params(self, target: v.Value | None) -> Params:
        if target is None:
            return Params()
        if isinstance(target, v.Collection) and any(isinstance(i, v.Grad) for i in target.each):
            return Params()
        return self.it.domain.params_of(target)

    # -- the rest

    def opaque(self, optimizers: frozenset[str] | None, node: s.Node, *, scales: bool = True) -> None:
        self.run.emit(Opaque, node, optimizers=optimizers, scales=scales)

    def use_up(self, value: v.Value, node: s.Node) -> None:
        """A generator of parameters is gone after its first use."""
        if isinstance(value, v.ParamsValue) and value.generator and value.used_by is None:
            value.used_by = self.run.site(node)

    def forward(self, model: v.Value, a: v.Arguments, node: s.Call) -> v.Value:
        key = owner(model)
        if self.it.core.frame.no_grad:
            return v.Unknown(s.render(node), called=key)
        wrap = self.run.wrap_of(model)
        result = tensors.forward(s.render(node), key, wrap=wrap, sync=self.run.sync_of(key), inputs=a.every)
        return self.it.guesses.perhaps_normalised(result.but(forward=self.run.site(node)), "", a)

    def no_sync_context(self, model: v.Value, node: s.Node, enabled: v.Value | None = None) -> v.Context:
        if self.run.unsure_sync:
            sync = Sync.MANAGED
        elif enabled is None:
            sync = Sync.OFF
        elif isinstance(enabled, v.Constant):
            sync = Sync.OFF if enabled.value else Sync.ON
        else:
            sync = Sync.MANAGED
        return v.Context(f"{model.key}.no_sync()", Switch.NO_SYNC, self.run.site(node), owner(model), sync)


def _reads_gradient(expr: s.Expr, *, whole: bool) -> bool:
    """Whether the numbers of a gradient are read here; its shape and what is made in its shape do not count."""
    if isinstance(expr, s.Attr):
        if expr.name in ("grad", "_grad"):
            return True
        return expr.name not in _SHAPE and _reads_gradient(expr.base, whole=True)
    if isinstance(expr, s.Call):
        name = expr.func.name if isinstance(expr.func, s.Attr) else s.render(expr.func)
        if name in _SHAPE or name.endswith("_like"):
            return False
        inside: list[s.Expr] = [*expr.args, *expr.kwargs.values()]
        if whole and isinstance(expr.func, s.Attr):
            inside.append(expr.func.base)
        return any(_reads_gradient(part, whole=True) for part in inside)
    return any(
        _reads_gradient(part, whole=True)
        for part in s.walk_expr(expr)
        if part is not expr and isinstance(part, s.Attr | s.Call)
    )


#: what is asked of a tensor beside its numbers
_SHAPE = {"shape", "device", "dtype", "size", "numel", "dim", "ndim", "is_cuda", "layout"}


def _is_relative(name: str, a: v.Arguments) -> bool:
    """`adaptive_clip_grad(params, 0.01)`, `dispatch_clip_grad(params, 0.01, mode="agc")`: a share of the weights,
    or whatever the mode says."""
    mode = a.kwargs.get("mode")
    norm = mode is None or (isinstance(mode, v.Constant) and mode.value == "norm")
    return not norm or naming.RELATIVE_CLIP.search(name) is not None


def _limits_size(a: v.Arguments) -> bool:
    """A clamp at 0 chooses signs."""
    limits = [limit for limit in (a.get(0, "min"), a.get(1, "max")) if limit is not None]
    return bool(limits) and not any(_is_number(limit, 0) for limit in limits)


def _is_number(value: v.Value | None, number: int) -> bool:
    return isinstance(value, v.Constant) and value.value == number
