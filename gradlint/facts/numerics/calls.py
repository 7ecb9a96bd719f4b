"""Calls: torch's functions and tensor methods, layers and criteria, functions and classes of the file."""

from __future__ import annotations

from gradlint.facts.numerics import arithmetic
from gradlint.facts.numerics.expressions import Expressions, same_text
from gradlint.facts.numerics.facts import (
    DATA,
    UNKNOWN,
    Chain,
    ClassRef,
    Fact,
    Items,
    Layer,
    Model,
    Object,
    Ref,
    Routine,
    Value,
    as_fact,
    combine,
    join,
    join_low,
)
from gradlint.facts.numerics.operations import Operation
from gradlint.knowledge import naming
from gradlint.knowledge import tensor_api as api
from gradlint.knowledge.torch_api import MODULE_PASSTHROUGH
from gradlint.python import syntax as s
from gradlint.python.calls import Arguments, evaluated
from gradlint.subjects import Kind, Low, Prob

#: modules whose functions give plain numbers
_PYTHON = ("math.", "numpy.", "np.", "random.", "scipy.", "os.", "time.")
_MAKES_DATA = {"len", "int", "float", "range", "print", "isinstance", "getattr", "round", "str", "bool", "type", "id"}
_CRITERIA = {
    **dict.fromkeys(api.CROSS_ENTROPY, Kind.CROSS_ENTROPY), **dict.fromkeys(api.NLL, Kind.NLL),
    **dict.fromkeys(api.BCE, Kind.BCE),
}  # fmt: skip
#: methods that tensors have and modules have not
_OF_TENSORS = frozenset(
    {"softmax", "log_softmax", "sigmoid", "exp", "log", "view", "reshape", "mean", "sum", "detach", "pow"}
)
_WRAPPERS = {
    "DataParallel",
    "DistributedDataParallel",
    "compile",
    "script",
    "FullyShardedDataParallel",
    "prepare_model",
}
_CLAMPS = frozenset({"clamp", "clip", "clamp_", "clip_", "clamp_min", "clamp_min_", "clamp_max", "clamp_max_"})
_OPERATORS = {
    "add": "+", "add_": "+", "sub": "-", "sub_": "-", "mul": "*", "mul_": "*", "multiply": "*", "div": "/", "div_": "/",
    "divide": "/", "true_divide": "/",
}  # fmt: skip


class Calls(Expressions):
    """Decides who is called."""

    def follow(self, routine: Routine, given: Arguments[Value]) -> Value:
        raise NotImplementedError("abstract: see Statements")

    def make(self, cls: s.Class, given: Arguments[Value]) -> Value:
        raise NotImplementedError("abstract: see Modules")

    def forward(self, owner: Object, given: Arguments[Value]) -> Value:
        raise NotImplementedError("abstract: see Modules")

    def call(self, node: s.Call) -> Value:
        func = node.func
        if isinstance(func, s.Attr):
            base = self.ev(func.base)
            if not isinstance(base, Ref):
                return self._method(base, func.name, node)
            return self._torch_or_other(f"{base.dotted}.{func.name}", node)
        if isinstance(func, s.Name) and func.id == "super":
            return self.frame.owner or UNKNOWN
        callee = self.ev(func)
        if isinstance(callee, Ref):
            return self._torch_or_other(callee.dotted, node)
        given = self.arguments(node)
        if isinstance(func, s.Name) and isinstance(callee, Fact | Model):
            if func.id in _MAKES_DATA:
                return DATA
            if func.id in ("sum", "max", "min", "abs") and given.args:
                return self._function(func.id, node, given) or UNKNOWN
            if func.id in ("list", "tuple", "iter", "zip", "enumerate", "reversed", "dict") and given.args:
                return self._builtin(func.id, given)
        return self.apply(callee, node, given)

    def _builtin(self, name: str, given: Arguments[Value]) -> Value:
        if name == "dict":
            return Items([], dict(given.kwargs))
        if name == "enumerate":
            return Items([Items([DATA, given.args[0]])]) if not isinstance(given.args[0], Items) else UNKNOWN
        return given.args[0] if len(given.args) == 1 else Items(list(given.args))

    def arguments(self, node: s.Call) -> Arguments[Value]:
        return evaluated(node, self.ev, _items, lambda value: None)

    def apply(self, callee: Value, node: s.Call, given: Arguments[Value]) -> Value:
        match callee:
            case Routine():
                return self.follow(callee, given)
            case ClassRef() if callee.node is not None:
                return self.make(callee.node, given)
            case Object():
                return self.forward(callee, given)
            case Layer():
                return self._layer(callee, node, given)
            case Chain():
                return self._chain(callee, node, given)
            case Model():
                raw = combine(facts_of(given)).but(grad=True, raw=True, layer=s.render(node.func))
                return raw if callee.head is None else self.apply(callee.head, node, Arguments([raw], {}, [node]))
            case _:
                return self._unknown_call(s.render(node.func), given)

    def _unknown_call(self, name: str, given: Arguments[Value], *, function: bool = False) -> Value:
        last = name.rpartition(".")[2]
        result = combine(facts_of(given)).but(layer=name)
        if api.LOSS_FUNCTION.search(last) or naming.CRITERION.search(last):
            self.reach(result)
        if given.kwargs and last[:1].isupper():
            return Items([], dict(given.kwargs))
        if any(isinstance(arg, s.Name) and api.PREDICTION.search(arg.id) for arg in given.exprs):
            # what an unknown function makes of a prediction, a spectrum say, may well be kept above zero
            result = result.but(low=Low.GUARDED)
        # a function of data gives data; a method may belong to a model
        return result if function and facts_of(given) and result.grad is False else result.but(grad=None)

    # -- torch

    def _torch_or_other(self, dotted: str, node: s.Call) -> Value:
        given = self.arguments(node)
        prefix = next((p for p in api.TORCH_PREFIXES if dotted.startswith(p)), None)
        name = dotted[len(prefix) :] if prefix else ""
        if prefix is None or "." in name:
            return self._elsewhere(dotted, node, given)
        if prefix == "torch.nn." and name[:1].isupper():
            return self._module(name, node, given)
        if name in _WRAPPERS and given.args:
            return given.args[0]
        found = self._function(name, node, given)
        return found if found is not None else combine(facts_of(given))

    def _elsewhere(self, dotted: str, node: s.Call, given: Arguments[Value]) -> Value:
        last = dotted.rpartition(".")[2]
        if dotted.startswith(_PYTHON):
            return DATA
        if last in _WRAPPERS and given.args:
            return given.args[0]
        if dotted.startswith("torch.autograd.") and last in ("backward", "grad"):
            for value in given.args[:1]:
                self.reach(value)
            # the norm of a gradient in a penalty: zero only where the network is flat
            return combine(facts_of(given)).but(grad=True, low=Low.GUARDED)
        if last in ("rearrange", "OrderedDict") and given.args:
            return given.args[0]
        if dotted.endswith("checkpoint.checkpoint") and given.args:
            return self.apply(given.args[0], node, Arguments(given.args[1:], {}, given.exprs[1:]))
        return self._unknown_call(dotted, given, function=last[:1].islower())

    def _module(self, name: str, node: s.Call, given: Arguments[Value]) -> Value:
        """`nn.Something(...)`: a layer, not a result."""
        if name in ("Sequential", "ModuleList"):
            layers = given.args
            if len(layers) == 1 and isinstance(layers[0], Items):
                layers = [*layers[0].items, *layers[0].entries.values()]
                layers = [x.items[1] if isinstance(x, Items) and len(x.items) == 2 else x for x in layers]
            return Chain(list(layers))
        if name == "Parameter":
            return Fact(grad=True)
        if name in _WRAPPERS and given.args:
            return given.args[0]
        return Layer(name, node)

    def _layer(self, layer: Layer, node: s.Call, given: Arguments[Value]) -> Value:
        name = layer.name
        first = given.get(0, "input", "x")
        fact = as_fact(first) if first is not None else UNKNOWN
        if name in _CRITERIA:
            return self._criterion(_CRITERIA[name], node, given, layer.call)
        if name in api.SOFTMAXES | api.SIGMOIDS:
            return self._probability(name, fact, layer.call or node)
        if name in api.SAME_LAYERS:
            return fact
        if name.endswith("Loss"):
            result = combine(facts_of(given))
            self.reach(result)
            known = arithmetic.function(name, fact, facts_of(given)[1:], node)
            return known if known is not None else result
        made = s.render(node.func)
        if name in api.LINEAR_LAYERS:
            return combine(facts_of(given)).but(grad=True, raw=True, layer=made)
        known = arithmetic.function(api.ACTIVATIONS.get(name, name), fact, [], node)
        return known if known is not None else combine(facts_of(given)).but(grad=True, layer=made)

    def _chain(self, chain: Chain, node: s.Call, given: Arguments[Value]) -> Value:
        value: Value = given.args[0] if given.args else UNKNOWN
        for layer in chain.layers:
            value = self.apply(layer, node, Arguments([value], {}, given.exprs[:1]))
        # a model's last layer is not the loss's own business
        return value.but(pure=False) if isinstance(value, Fact) else value

    def _criterion(self, kind: Kind, node: s.Call, given: Arguments[Value], made: s.Call | None) -> Fact:
        expr = given.expression(0, "input")
        result = combine(facts_of(given))
        self.reach(result)
        if expr is not None:
            value = given.get(0, "input")
            operation = self.operate(kind, node, expr, as_fact(value) if value is not None else UNKNOWN, made=made)
            if operation is not None:
                result = result.but(ops=result.ops | {operation})
        return result.but(low=Low.ZERO) if kind is not Kind.NLL else result

    def _probability(self, name: str, fact: Fact, made: s.Call) -> Fact:
        kind = Prob.SIGMOID if name in api.SIGMOIDS else Prob.PIECE if name.startswith("gumbel") else Prob.SOFTMAX
        return Fact(
            grad=fact.grad, low=Low.ZERO, capped=True, prob=kind, made=made, home=self.frame.function, pure=True,
            zero=f"a {kind.value}", ops=fact.ops,
        )  # fmt: skip

    # -- tensor functions, and methods of tensors

    def _method(self, base: Value, name: str, node: s.Call) -> Value:
        given = self.arguments(node)
        match base:
            case Object():
                if name in MODULE_PASSTHROUGH or name in ("forward", "__call__"):
                    return base if name in MODULE_PASSTHROUGH else self.forward(base, given)
                if name == "register_buffer" and node.args and isinstance(node.args[0], s.Const):
                    self.change(base)
                    base.attributes[str(node.args[0].value)] = DATA
                    return DATA
                if name == "add_module":
                    return DATA
                member = self.attribute_of(base, name)
                return self.apply(member, node, given) if member is not None else self._unknown_call(name, given)
            case Layer() | Chain() | Model():
                if name in ("append", "add_module") and isinstance(base, Chain) and given.args:
                    self.change(base)
                    base.layers.append(given.args[-1])
                    return base
                if isinstance(base, Model) and name in _OF_TENSORS:
                    return self._of_tensor(UNKNOWN, name, node, given)  # a tensor that is called `student`
                return base if name in MODULE_PASSTHROUGH else self._unknown_call(name, given)
            case Items():
                return self._of_items(base, name, given)
            case Fact():
                return self._of_tensor(base, name, node, given)
            case _:
                return self._unknown_call(name, given)

    def _of_tensor(self, base: Fact, name: str, node: s.Call, given: Arguments[Value]) -> Value:
        if name == "backward":
            self.reach(base)
            self.reach(combine(facts_of(given)))
            return DATA
        receiver = node.func.base if isinstance(node.func, s.Attr) else node.func
        whole = given.behind(base, receiver)
        found = self._function(name, node, whole)
        if found is not None:
            return found
        if name == "manual_backward":
            self.reach(combine(facts_of(given)))
        result = self._unknown_call(name, given)
        return result.but(ops=result.ops | base.ops) if isinstance(result, Fact) else result

    def _of_items(self, base: Items, name: str, given: Arguments[Value]) -> Value:
        if name in ("append", "add", "extend", "insert") and given.args:
            if len(base.items) < 12:
                self.change(base)
                value = given.args[-1]
                base.items.extend(value.items if isinstance(value, Items) and name == "extend" else [value])
            return DATA
        if name in ("values", "items"):
            values = [*base.items, *base.entries.values()]
            return Items(values) if name == "values" else Items([Items([DATA, value]) for value in values])
        if name in ("get", "pop"):
            return as_fact(base)
        return self._unknown_call(name, given)

    def _function(self, name: str, node: s.Call, given: Arguments[Value]) -> Value | None:
        """A function of torch by its last name; a method has its tensor as the first argument."""
        first = _joined(given.get(0, "input", "tensors") or UNKNOWN, name)
        operand = given.expression(0, "input")
        rest = [as_fact(v) for v in given.args[1:]]
        if name == "backward":
            self.reach(combine(facts_of(given)))
            return DATA
        if _is_parameter(name, given):
            return Fact(grad=True)
        if operand is None:
            return DATA if name in api.DATA else None
        if name in api.SOFTMAXES or name in api.SIGMOIDS:
            return self._probability(name, first, node)
        if name in _CRITERIA and name[:1].islower():
            return self._criterion(_CRITERIA[name], node, given, None)
        delicate = self._delicate(name, node, operand, first, rest)
        if delicate is not None:
            return delicate
        if name in _CLAMPS:
            low = given.get(1, "min") if not name.startswith("clamp_max") else None
            high = given.get(1 if name.startswith("clamp_max") else 2, "max")
            return arithmetic.clamped(first, as_fact(low) if low else None, as_fact(high) if high else None)
        if name in _OPERATORS and rest:
            return self._operator(_OPERATORS[name], node, operand, first, rest[0], given)
        if name in ("where", "masked_select") and rest:
            return _chosen(name, first, rest, given)
        if name.endswith("_loss") or name.startswith("binary_cross_entropy_with"):
            self.reach(combine(facts_of(given)))
        return arithmetic.function(name, first, rest, operand)

    def _operator(
        self, op: str, node: s.Call, operand: s.Expr, first: Fact, other: Fact, given: Arguments[Value]
    ) -> Fact:  # fmt: skip
        second = given.expression(1, "other")
        result = arithmetic.binary(op, first, other, op == "*" and same_text(operand, second), operand)
        if op == "/" and other.number is None and second is not None:
            return self._marked(result, self.operate(Kind.DIVIDE, node, second, other, other=first))
        return result

    def _delicate(self, name: str, node: s.Call, operand: s.Expr, first: Fact, rest: list[Fact]) -> Fact | None:
        merged = combine((first, *rest))
        if name in api.LOGS:
            result = merged.but(prob=Prob.LOG if first.prob else None, capped=first.capped)
            return self._marked(result, self.operate(Kind.LOG, node, operand, first))
        if name == "log1p":
            return self._marked(merged, self.operate(Kind.LOG1P, node, operand, first))
        if name in api.ROOTS or (name in ("pow", "pow_") and rest and rest[0].number == 0.5):
            result = merged.but(low=first.low, zero=first.zero)
            return self._marked(result, self.operate(Kind.ROOT, node, operand, first))
        if name in ("pow", "pow_") and rest:
            return arithmetic.power(first, rest[0], operand)
        if name in api.EXPS:
            operation = self.operate(Kind.EXP, node, operand, first)
            exps = (operation,) if operation is not None else ()
            return self._marked(merged.but(low=Low.POSITIVE, exps=exps), operation)
        return None

    @staticmethod
    def _marked(result: Fact, operation: Operation | None) -> Fact:
        return result.but(ops=result.ops | {operation}) if operation is not None else result


def facts_of(given: Arguments[Value]) -> list[Fact]:
    return [as_fact(value) for value in given.every]


def _items(value: Value) -> list[Value] | None:
    return value.items if isinstance(value, Items) else None


def _is_parameter(name: str, given: Arguments[Value]) -> bool:
    """`torch.randn(n, requires_grad=True)`; a number that is written out, to show what autograd does, is none."""
    asked = given.named.get("requires_grad")
    if name not in api.DATA or not isinstance(asked, s.Const) or asked.value is not True:
        return False
    return name not in ("tensor", "as_tensor", "Tensor", "FloatTensor")


def _joined(value: Value, name: str) -> Fact:
    """`torch.cat([a, b])` knows what both are."""
    if name not in api.JOINS or not isinstance(value, Items) or not value.items:
        return as_fact(value)
    found = value.items[0]
    for item in value.items[1:]:
        found = join(found, item)
    return as_fact(found).but(capped=all(as_fact(item).capped for item in value.items))


def _chosen(name: str, first: Fact, rest: list[Fact], given: Arguments[Value]) -> Fact | None:
    """A condition that asks about the very numbers is a guard; one that asks about others only picks."""
    asked = first.compared if name == "where" else rest[0].compared
    chosen = given.exprs[1:3] if name == "where" else given.exprs[:1]
    names = {part.id for expr in chosen for part in s.walk_expr(expr) if isinstance(part, s.Name)}
    if name == "masked_select":
        return arithmetic.selected(first, whole_rows=False).but(
            low=max(first.low, Low.GUARDED) if asked & names else first.low
        )
    if len(rest) == 2 and all(f.prob is not None and f.prob is not Prob.LOG for f in rest) and not asked & names:
        low = join_low(rest[0].low, rest[1].low)
        return combine(rest).but(low=low, prob=Prob.PIECE, made=rest[0].made, home=rest[0].home, capped=True)
    return arithmetic.function(name, first, rest, given.exprs[0])
