"""Follows numbers to the loss: what torch's functions and layers make of them, and which of it is trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.facts import joined, numbers
from gradlint.facts.functions import CRITERIA, Functions, Layer, facts_of, marked, passed_on, same_text
from gradlint.facts.numbers import DATA, UNKNOWN, Fact, as_fact, combine, join
from gradlint.facts.operations import OF_MODELS, Losses, Operation, State, gives_loss
from gradlint.knowledge import frameworks, naming
from gradlint.knowledge import tensor_api as api
from gradlint.knowledge.torch_api import MODULE_PASSTHROUGH
from gradlint.python import syntax as s
from gradlint.python.binding import last
from gradlint.python.calls import Arguments
from gradlint.python.classes import MemberKind
from gradlint.python.evaluate import Evaluator
from gradlint.python.values import (
    Class,
    Collection,
    Constant,
    External,
    Function,
    Instance,
    Rest,
    Turns,
    Value,
)
from gradlint.python.values import Kind as Held
from gradlint.records import dataclass
from gradlint.subjects import Kind, Low

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradlint.python.frame import Frame
    from gradlint.python.module import Module

#: modules whose functions give plain numbers
_PYTHON = ("math.", "numpy.", "np.", "random.", "scipy.", "os.", "time.")
_MAKES_DATA = {"len", "int", "float", "range", "print", "isinstance", "getattr", "round", "str", "bool", "type", "id"}
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
#: without one of these nothing can be said, a criterion beside a probability set apart
POINTED = api.LOGS | api.ROOTS | api.EXPS | {"log1p", "pow"}
PROBABILITIES = api.SOFTMAXES | api.SIGMOIDS
_DELICATE = POINTED | CRITERIA.keys() | {"backward", "manual_backward"}


@dataclass(slots=True, eq=False)
class Model(Value):
    """A network from elsewhere: calling it gives raw predictions, or what a head that was put on it makes of them."""

    head: Value | None = None


class Tensors:
    """The domain of numbers and tensors."""

    def __init__(self, program: Module) -> None:
        self.program = program
        self.core = Evaluator(program, self, joined.Joined(), budget=15_000, depth=7, words=PROBABILITIES)
        self.core.module.state = State()
        self.losses = Losses(program, self.core)
        self.functions = Functions(self.losses)
        #: methods of other files that classes of this one inherit
        self._lent: set[int] = set()

    def entries(self, body: list[s.Stmt], owner: Instance | None) -> list[Function]:
        """Functions and methods with something delicate in them, in the order of the file."""
        found: list[Function] = []
        for stmt in body:
            if isinstance(stmt, s.Def):
                if self._is_entry(stmt, owner.cls.node if owner is not None else None):
                    found.append(self._entry(stmt, owner))
            elif isinstance(stmt, s.Class):
                found += self.entries(stmt.body, Instance(Class(stmt, self.core.module)))
            else:
                for block in s.blocks(stmt):
                    found += self.entries(block, owner)
        return found

    def _is_entry(self, function: s.Def, cls: s.Class | None) -> bool:
        called = self.program.owner(function.node).own_words(function.body).called
        if gives_loss(function, cls) or called & _DELICATE:
            return True
        return any(naming.CRITERION.search(name) or "loss" in name.lower() for name in called)

    def inherited(self) -> Iterator[Function]:
        """What classes have from their bases, with their own objects: they have other models and criteria."""
        for cls in self.program.classes.values():
            bases = self.core.classes.lineage(cls)[1:]
            me = Instance(Class(cls, self.core.module))
            for method in (stmt for base in bases for stmt in base.body if isinstance(stmt, s.Def)):
                if method.name in OF_MODELS or not self._is_entry(method, cls):
                    continue
                found = self.core.objects.member(me, method.name)
                if isinstance(found, Function) and found.node is method:
                    self._lent.add(method.node)
                    yield found

    def may_tell(self, operation: Operation) -> bool:
        """It stands in this file, or in a method that a class of this file has from another one."""
        here = self.program.owner(operation.node.node) is self.program
        return here or (operation.function is not None and operation.function.node in self._lent)

    def _entry(self, function: s.Def, owner: Instance | None) -> Function:
        member = self.core.classes.member(owner.cls.node, function.name) if owner is not None else None
        static = member is not None and member.function is function and member.kind is MemberKind.STATIC
        return Function(function, self.core.module, None if static else owner)

    def enter(self, frame: Frame, caller: Frame) -> State:
        return self.losses.enter(frame, caller)

    # -- names and places

    def unknown(self, name: str) -> Value:
        return by_name(name)

    def parameter(self, param: s.Param, given: Value | None, default: Value | None, frame: Frame) -> Value:
        if given is not None and given is not UNKNOWN:
            return given
        if given is None and default is not None:
            if not isinstance(default, Fact | Constant | Model):
                return default
            fact = as_fact(default)
            return fact if fact.number is not None else by_name(param.name)
        if isinstance(param.annotation, s.Name):
            meant = self.core.module.names.get(param.annotation.id)
            if isinstance(meant, Class):
                return Instance(meant)
        return by_name(param.name)

    def store(
        self, target: s.Expr | s.Return | s.Assign, base: Value | None, value: Value, source: s.Expr | None = None
    ) -> Value:
        if isinstance(target, s.Return):
            return self._returned(value)
        if self.core.frame.no_grad and isinstance(value, Fact) and value.grad is not False:
            value = value.but(grad=False, ops=frozenset())
        match target:
            case s.Name():
                self._sink(target.id, value)
            case s.Attr():
                self._sink(target.name, value)
                if target.name in api.HEADS and base is not None:
                    self._put_head(target.base, base, value)
            case s.Item(index=s.Const(value=str() as key)):
                self._sink(key, value)
            case s.Item(base=s.Attr() as row) if row.name in api.HEADS:
                self._put_head(row.base, self.core.ev(row.base), value)
            case s.Item(base=s.Name() as name) if isinstance(base, Fact):
                # `x[mask] = 1` may be the guard
                merged = combine((base, as_fact(value)))
                self.core.frame.names[name.id] = merged.but(low=max(base.low, Low.GUARDED), capped=True)
            case _:
                pass
        return value

    def _returned(self, value: Value) -> Value:
        frame = self.core.frame
        if self.losses.state.loss:
            self.losses.reach(value)
        of_model = isinstance(frame.owner, Instance) and frame.function is not None and frame.function.name in OF_MODELS
        return value.but(grad=True) if of_model and isinstance(value, Fact) and value.grad is None else value

    def _sink(self, name: str, value: Value) -> None:
        if api.LOSS_NAME.search(name) and not api.NO_LOSS_NAME.search(name):
            self.losses.reach(value)

    def _put_head(self, target: s.Expr, base: Value, head: Value) -> None:
        """`model.fc = nn.Sequential(…)` on a model from elsewhere: its last layer."""
        module = isinstance(head, Layer | Instance) or (isinstance(head, Collection) and head.kind is Held.ROW)
        if not module or not isinstance(base, Model | Fact):
            return
        if isinstance(target, s.Name | s.Attr):
            self.core.assign(target, Model(head))

    # -- expressions

    def attribute(self, base: Value, expr: s.Attr) -> Value | None:
        if isinstance(expr.base, s.Name | s.Attr) and api.CONFIG.search(last(expr.base)):
            named = by_name(expr.name)
            return named if isinstance(named, Fact) and named.eps else DATA
        if not isinstance(base, Fact):
            return None
        if expr.name in ("T", "mT", "real"):
            return base
        if expr.name in ("data", "shape", "dtype", "device", "grad"):
            return DATA
        named = by_name(expr.name)
        return named.but(ops=base.ops) if isinstance(named, Fact) else named

    def operate(self, expr: s.Expr, values: list[Value]) -> Value:
        known = self.core.folded(expr, values)
        if known is not None:
            return known
        facts = [as_fact(value) for value in values]
        match expr:
            case s.Bin():
                return self._binary(expr, *facts)
            case s.Unary(op="-"):
                return numbers.negated(facts[0])
            case s.Unary():
                return DATA.but(compared=facts[0].compared) if expr.op in ("not", "~") else facts[0]
            case s.Compare():
                return DATA.but(compared=frozenset(part.id for part in s.walk_expr(expr) if isinstance(part, s.Name)))
            case s.Other():
                return combine(facts).but(grad=None)
            case _:
                return UNKNOWN

    def _binary(self, expr: s.Bin, left: Fact, right: Fact) -> Fact:
        same = expr.op == "*" and same_text(expr.left, expr.right)
        result = numbers.binary(expr.op, left, right, same, expr.left)
        if expr.op == "-" and left.layer and right.layer and left.layer != right.layer and not self.losses.near:
            # what two layers of a model make of their inputs is not equal, down to the last digit
            result = result.but(difference=False, layer=f"{left.layer} - {right.layer}")
        if expr.op == "/" and right.number is None:
            return marked(result, self.losses.operate(Kind.DIVIDE, expr, expr.right, right, other=left))
        if expr.op == "**" and right.number == 0.5:
            return marked(result, self.losses.operate(Kind.ROOT, expr, expr.left, left))
        return result

    def item(self, base: Value, index: Value | None, expr: s.Expr) -> Value:
        if index is None:
            return _part(base, expr)
        if not isinstance(base, Fact):
            return as_fact(base) if isinstance(base, Collection) and not _is_text(index) else UNKNOWN
        assert isinstance(expr, s.Item)
        if isinstance(expr.base, s.Name) and expr.base.id in as_fact(index).compared:
            return base.but(low=max(base.low, Low.GUARDED), capped=True, pure=False)
        # `probs[mask]` keeps rows whole, `probs[range(n), y]` does not
        parts = expr.index.children if isinstance(expr.index, s.Other) else []
        return numbers.selected(base, whole_rows=len(parts) < 2 or any(isinstance(part, s.Other) for part in parts))

    def iterate(self, value: Value, target: s.Expr | None) -> Turns:
        match value:
            case Collection(kind=Held.ROW) if value.whole and len(value.items) <= 12:
                return Turns(value.items, whole=True)
            case Collection() if value.items:
                parts = [x.value if isinstance(x, Rest) else x for x in value.items[:4]]
                return Turns([DATA] if all(isinstance(x, Constant) for x in parts) else parts)
            case Fact() if value.number is None:
                # `for batch, labels in loader`: what the loader gives is data, not a prediction
                data = isinstance(target, s.Sequence) and not value.ops and value.prob is None
                return Turns([UNKNOWN if data or value is UNKNOWN else numbers.selected(value, whole_rows=True)])
            case Fact() | Constant():
                return Turns([DATA])
            case _:
                return Turns([UNKNOWN])

    def join(self, one: Value, other: Value) -> Value:
        return join(one, other)

    def truth(self, value: Value, node: s.If | s.IfExp | s.Comprehension) -> bool | None:
        return None if isinstance(node, s.Comprehension) else self._holds(node.test)

    def _holds(self, expr: s.Expr) -> bool | None:
        """`self.training` holds in training; nothing else is settled."""
        match expr:
            case s.Attr(name="training"):
                return True
            case s.Unary(op="not", value=s.Attr(name="training")):
                return False
            case s.Bool(op="and"):
                return False if any(self._holds(item) is False for item in expr.items) else None
            case _:
                return None

    # -- calls

    def call(self, callee: Value, node: s.Call, given: Arguments[Value]) -> Value:
        match callee:
            case External():
                return self._external(callee.dotted, node, given)
            case Class():
                return self.core.objects.make(callee, given)
            case Instance():
                return self._forward(callee, node, given)
            case Layer():
                return self.functions.layer(callee, node, given)
            case Collection(kind=Held.ROW):
                return self._row(callee, node, given)
            case Model():
                raw = combine(facts_of(given)).but(grad=True, raw=True, layer=s.render(node.func))
                if callee.head is None:
                    return raw
                return self.core.call(callee.head, node, Arguments([raw], {}, [node]))
            case Function():
                return combine(facts_of(given)).but(grad=None)  # too deep
            case _:
                return self._unknown_call(s.render(node.func), given)

    def _external(self, dotted: str, node: s.Call, given: Arguments[Value]) -> Value:
        prefix = next((p for p in api.TORCH_PREFIXES if dotted.startswith(p)), None)
        name = dotted[len(prefix) :] if prefix else ""
        if dotted.startswith("builtins."):
            return self._builtin(dotted[len("builtins.") :], node, given)
        if prefix is None or "." in name:
            return self._elsewhere(dotted, node, given)
        if prefix == "torch.nn." and name[:1].isupper():
            return self._module(name, node, given)
        if name in _WRAPPERS and given.args:
            return given.args[0]
        found = self.functions.function(name, node, given)
        return found if found is not None else combine(facts_of(given))

    def _builtin(self, name: str, node: s.Call, given: Arguments[Value]) -> Value:
        match name, given.args:
            case _ if name in _MAKES_DATA:
                return DATA
            case (("sum" | "max" | "min" | "abs"), [_, *_]):
                return self.functions.function(name, node, given) or UNKNOWN
            case "dict", [*sources]:
                entries = [source.entries for source in sources if isinstance(source, Collection)]
                return Collection([], {**(entries[0] if entries else {}), **given.kwargs}, Held.DICT)
            case "enumerate", [value, *_]:
                return Collection([Rest(Collection([DATA, self.core.element(value)], {}, Held.TUPLE))])
            case "zip", [*values] if values:
                row = [self.core.element(value) for value in values]
                return Collection([Rest(Collection(row, {}, Held.TUPLE))])
            case (("list" | "tuple" | "iter" | "set" | "sorted" | "reversed"), [value, *_]):
                return value
            case (("list" | "tuple" | "set"), []):
                return Collection()
            case _:
                return self._unknown_call(name, given)

    def _unknown_call(self, name: str, given: Arguments[Value], *, function: bool = False) -> Value:
        last = name.rpartition(".")[2]
        result = combine(facts_of(given)).but(layer=name)
        if api.LOSS_FUNCTION.search(last) or naming.CRITERION.search(last):
            self.losses.reach(result)
        if given.kwargs and last[:1].isupper():
            return Collection([], dict(given.kwargs), Held.RECORD)
        if any(isinstance(arg, s.Name) and api.PREDICTION.search(arg.id) for arg in given.exprs):
            # what an unknown function makes of a prediction, a spectrum say, may well be kept above zero
            result = result.but(low=Low.GUARDED)
        # a function of data gives data; a method may belong to a model
        return result if function and facts_of(given) and result.grad is False else result.but(grad=None)

    # -- torch

    def _elsewhere(self, dotted: str, node: s.Call, given: Arguments[Value]) -> Value:
        last = dotted.rpartition(".")[2]
        if dotted.startswith(_PYTHON):
            return DATA
        if last in _WRAPPERS and given.args:
            return given.args[0]
        if dotted.startswith("torch.autograd.") and last in ("backward", "grad"):
            for value in given.args[:1]:
                self.losses.reach(value)
            # the norm of a gradient in a penalty: zero only where the network is flat
            return combine(facts_of(given)).but(grad=True, low=Low.GUARDED)
        passed = passed_on(frameworks.of_call(dotted), given)
        if passed is not None:
            return passed
        if last in ("rearrange", "OrderedDict") and given.args:
            return given.args[0]
        if dotted.endswith("checkpoint.checkpoint") and given.args:
            return self.core.call(given.args[0], node, Arguments(given.args[1:], {}, given.exprs[1:]))
        return self._unknown_call(dotted, given, function=last[:1].islower())

    def _module(self, name: str, node: s.Call, given: Arguments[Value]) -> Value:
        """`nn.Something(...)`: a layer, not a result."""
        if name in ("Sequential", "ModuleList"):
            layers = given.args
            if len(layers) == 1 and isinstance(layers[0], Collection) and layers[0].kind is not Held.ROW:
                pairs = layers[0].parts
                layers = [x.items[1] if isinstance(x, Collection) and x.kind is Held.TUPLE else x for x in pairs]
            return Collection(list(layers), {}, Held.ROW)
        if name == "Parameter":
            return Fact(grad=True)
        if name in _WRAPPERS and given.args:
            return given.args[0]
        return Layer(name, node)

    def _row(self, row: Collection, node: s.Call, given: Arguments[Value]) -> Value:
        value: Value = given.args[0] if given.args else UNKNOWN
        for layer in row.parts:
            # a layer of which nobody knows whether it is there gives either
            called = layer.value if isinstance(layer, Rest) else layer
            behind = self.core.call(called, node, Arguments([value], {}, given.exprs[:1]))
            value = join(value, behind) if isinstance(layer, Rest) else behind
        function = self.losses.function
        if not isinstance(value, Fact) or (function is not None and function.name in OF_MODELS):
            return value
        return value.but(pure=False)  # a model's last layer is not the loss's own business

    def _forward(self, owner: Instance, node: s.Call, given: Arguments[Value]) -> Value:
        method = self.core.objects.member(owner, "forward")
        if method is None:
            return combine(facts_of(given)).but(grad=True, raw=True)
        return self.core.call(method, node, given)

    # -- tensor functions, and methods of tensors

    def method(self, base: Value, name: str, node: s.Call, given: Arguments[Value]) -> Value:
        match base:
            case Instance():
                if name in ("forward", "__call__"):
                    return self._forward(base, node, given)
                return base if name in MODULE_PASSTHROUGH else self._of_module(base, name, node, given)
            case Layer() | Model() | Collection(kind=Held.ROW):
                if isinstance(base, Model) and name in _OF_TENSORS:
                    return self._of_tensor(UNKNOWN, name, node, given)  # a tensor that is called `student`
                if isinstance(base, Collection) and name == "add_module" and given.args:
                    self.core.change(base)
                    base.add(given.args[-1])
                return base if name in MODULE_PASSTHROUGH else self._unknown_call(name, given)
            case Collection() if name in ("get", "pop"):
                return as_fact(base)
            case Fact() | Constant():
                framework = frameworks.named(last(node.func.base)) if isinstance(node.func, s.Attr) else None
                passed = passed_on((framework, frameworks.method(framework, name)), given) if framework else None
                return passed or self._of_tensor(as_fact(base), name, node, given)
            case _:
                return self._unknown_call(name, given)

    def _of_module(self, base: Instance, name: str, node: s.Call, given: Arguments[Value]) -> Value:
        """`self.register_buffer("w", w)`, `self.add_module("fc", nn.Linear(…))`."""
        key = given.get(0, "name")
        if name not in ("register_buffer", "add_module", "register_module") or not isinstance(key, Constant):
            return self._unknown_call(name, given)
        self.core.change(base)
        base.attributes[str(key.value)] = DATA if name == "register_buffer" else given.get(1, "module") or UNKNOWN
        return DATA

    def _of_tensor(self, base: Fact, name: str, node: s.Call, given: Arguments[Value]) -> Value:
        if name == "backward":
            self.losses.reach(base)
            self.losses.reach(combine(facts_of(given)))
            return DATA
        receiver = node.func.base if isinstance(node.func, s.Attr) else node.func
        found = self.functions.function(name, node, given.behind(base, receiver))
        if found is None:
            if name == "manual_backward":
                self.losses.reach(combine(facts_of(given)))
            found = self._unknown_call(name, given)
            found = found.but(ops=found.ops | base.ops) if isinstance(found, Fact) else found
        if isinstance(receiver, s.Name) and receiver.id in self.core.frame.names:
            if name == "append" and given.args:
                self.core.assign(receiver, combine([base, as_fact(given.args[0])]))
            elif name.endswith("_") and not name.startswith("_"):
                self.core.frame.names[receiver.id] = found  # `probs.clamp_(min=eps)` changes what the name holds
        return found


def _part(value: Value, target: s.Expr) -> Value:
    """What one of several names gets."""
    if value is UNKNOWN and isinstance(target, s.Name):
        return by_name(target.id)
    if isinstance(value, Collection) and not value.whole:
        value = as_fact(value)
    if not isinstance(value, Fact):
        return UNKNOWN
    # `values, indices = probs.max(1)` and the outputs of an unknown model
    raw = value.raw or value.prob is None
    return value.but(pure=False) if raw else numbers.selected(value, whole_rows=False)


def _is_text(index: Value) -> bool:
    return isinstance(index, Constant) and isinstance(index.value, str)


def by_name(name: str) -> Value:
    """What the name of an unknown thing says."""
    if api.EPS.search(name):
        return Fact(grad=False, low=Low.POSITIVE, capped=True, eps=True)
    if api.TARGET.search(name) or api.SETTING.search(name):
        return DATA
    if api.UNIT.search(name):
        return Fact(capped=True)
    if naming.MODEL.search(name) and not api.PREDICTION.search(name) and not api.LOGITS.search(name):
        return Model()
    return UNKNOWN
