"""Builds and runs the models of a file on paper, to see which layers a gradient passes one after the other.

Lists of layers, loops with a known count, `nn.Sequential` in all its spellings and the `forward` of every class are
followed. What is not understood ends a chain, so that none is longer than it is in truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.facts import joined
from gradlint.facts.chains import END, FRESH, SETTING, UNKNOWN, Chains, Leaf, Setting, Tensor, Unknown
from gradlint.knowledge.layers import ASIDE, MERGES, SATURATING, Role, function_role, method_role, module_role
from gradlint.knowledge.torch_api import MODULE_PASSTHROUGH
from gradlint.python import syntax as s
from gradlint.python.calls import Arguments, bind, written
from gradlint.python.evaluate import Evaluator
from gradlint.python.values import (
    LONGEST,
    Class,
    Collection,
    Constant,
    Enough,
    External,
    Function,
    Instance,
    Kind,
    Rest,
    Super,
    Turns,
    Value,
)
from gradlint.records import replace
from gradlint.subjects import Layer, Stack

if TYPE_CHECKING:
    from gradlint.python.frame import Frame
    from gradlint.python.module import Module
    from gradlint.python.project import Definition

#: methods of collections that only look
_LOOKS = frozenset({"keys", "index", "count", "get", "values", "items"})
#: another file is followed if it has one of these
_FOLLOWED = frozenset({"Sequential", *SATURATING})


def saturating_stacks(program: Module) -> list[Stack]:
    """The saturating activations that stand in a row, in every model of the file."""
    if not program.all_words.seen & _saturating_words(program):
        return []
    layers = Layers(program)
    try:
        layers.run()
    except (Enough, RecursionError):
        return []
    finally:
        layers.core.let_go()
    placed = (_placed(stack, program) for stack in layers.chains.stacks())
    # of a stack that stands in other files altogether, nothing here says where it is put together
    return [x for x in placed if any(program.path in (y.made_in, y.used_in) for y in x.hidden)]


def _placed(stack: Stack, program: Module) -> Stack:
    """The same, with the files that its layers stand in. What another file uses stands where it was made here."""
    owners = {node: program.owner(node) for layer in stack.hidden for node in (layer.made, layer.used)}
    others = (owner.all_words.seen for owner in owners.values() if owner is not program)
    hidden = []
    for layer in stack.hidden:
        used = layer.made if owners[layer.made] is program else layer.used
        used = layer.used if owners[layer.used] is program else used
        hidden.append(replace(layer, used=used, made_in=owners[layer.made].path, used_in=owners[used].path))
    return replace(stack, hidden=tuple(hidden), seen=frozenset().union(*others))


class Layers:
    """The domain of layers and of the tensors that go through them."""

    def __init__(self, program: Module) -> None:
        self.program = program
        self.core = Evaluator(program, self, joined.Joined(), budget=10_000, depth=12, words=_FOLLOWED)
        self.chains = Chains()
        #: every `nn.Sequential`, as it is in the end
        self._rows: list[Collection] = []

    def run(self) -> None:
        wanted = _with_saturating(self.program)
        joined.run(self.core, self.program.body)
        methods = {id(x): stmt for stmt in self.program.statements() if isinstance(stmt, s.Class) for x in stmt.body}
        for stmt in self.program.statements():
            if isinstance(stmt, s.Class) and stmt.name in wanted:
                self._model(stmt)
            elif isinstance(stmt, s.Def) and stmt.name in wanted and self._builds(stmt):
                function = Function(stmt, self.core.module)
                self.core.enter(function, stmt, self._given(stmt.name, stmt.params, method=id(stmt) in methods))
        for made in self.core.objects.made:  # it grows on the way: they make others
            self.core.objects.ready(made)
        for row in self._rows:
            self._through(row, FRESH)

    def _builds(self, function: s.Def) -> bool:
        """A function (or a method) that puts a stack together, whoever calls it."""
        return function.name != "__init__" and "Sequential" in self.program.own_words(function.body).seen

    def _model(self, cls: s.Class) -> None:
        """Builds a class as the file does, and runs its `forward`."""
        init = self.core.classes.method(cls, "__init__")
        given = self._given(cls.name, init.params[1:] if init is not None else [], method=False)
        made = Instance(Class(cls, self.core.module), given)
        forward = self.core.objects.member(made, "forward")
        if forward is not None:
            self.core.call(forward, s.Call(cls.node, s.Name(cls.node, cls.name), [], {}), Arguments())
        else:
            self._through(made, FRESH)

    def _given(self, name: str, params: list[s.Param], *, method: bool) -> Arguments[Value]:
        """What the file itself says where it calls something; where it says different things, nothing is known."""
        given: dict[str, Value] = {}
        for call in self.program.calls():
            if not _calls(call, name, method=method):
                continue
            if call.starred:
                return Arguments([], {param.name: SETTING for param in params if not param.star})
            said = bind([param for param in params if param.name != "self"], written(call))
            for param in params:
                expr = said.values.get(param.name, param.default)
                value = self.core.ev(expr) if expr is not None else SETTING
                if param.name not in said.values:
                    value = _plain(value)
                known = given.get(param.name, value)
                same = known.signature() == value.signature() and isinstance(value, Constant | Collection)
                given[param.name] = value if same else SETTING
        return Arguments([], given)

    # -- values

    def unknown(self, name: str) -> Value:
        return UNKNOWN

    def parameter(self, param: s.Param, given: Value | None, default: Value | None, frame: Frame) -> Value:
        if given is not None:
            return given
        function = frame.function
        if function is None or function.name != "forward":
            return SETTING if default is None else _plain(default)
        # tensors, but for switches; what may be None may be anything
        if default == Constant(None):
            return UNKNOWN
        return SETTING if isinstance(default, Constant) else FRESH

    def enter(self, frame: Frame, caller: Frame) -> bool:
        """It runs a model; elsewhere a difference is a loss and says nothing of the model's branches."""
        function = frame.function
        if function is None or function is caller.function:
            return bool(caller.state)
        return function.name != "__init__" and (function.name == "forward" or bool(caller.state))

    def attribute(self, base: Value, expr: s.Attr) -> Value | None:
        if isinstance(base, Tensor):
            return SETTING if expr.name in ASIDE else base
        return SETTING if isinstance(base, Setting) else None

    def operate(self, expr: s.Expr, values: list[Value]) -> Value:
        known = self.core.folded(expr, values)
        if known is not None:
            return known
        if isinstance(expr, s.Compare):
            return _compared(expr.op, *values)
        if isinstance(expr, s.Unary):
            holds = _holds(values[0]) if expr.op == "not" else None
            return (
                values[0]
                if isinstance(values[0], Tensor | Setting)
                else UNKNOWN
                if holds is None
                else Constant(not holds)
            )
        if isinstance(expr, s.Bin):
            if any(isinstance(value, Tensor) for value in values):
                return self._merge(values)
            return SETTING if all(isinstance(value, Constant | Setting) for value in values) else UNKNOWN
        return UNKNOWN

    def _merge(self, values: list[Value]) -> Value:
        """Tensors become one; a number that is added or multiplied leaves a tensor what it is."""
        tensors = [x for x in values if not isinstance(x, Constant | Setting)]
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return tensors[0]
        return self.chains.merge(tensors) if self.core.frame.state else FRESH

    def item(self, base: Value, index: Value | None, expr: s.Expr) -> Value:
        if index is None:
            return FRESH if isinstance(base, Tensor) else UNKNOWN
        return base if isinstance(base, Tensor | Setting) else UNKNOWN

    def iterate(self, value: Value, target: s.Expr | None) -> Turns:
        items = _items(value)
        return Turns([UNKNOWN]) if items is None else Turns(items, whole=True)

    def join(self, one: Value, other: Value) -> Value:
        """What a name stands for behind two branches; where they differ, a chain ends."""
        if one.signature() == other.signature():
            return one
        if isinstance(one, Tensor) or isinstance(other, Tensor):
            return FRESH
        if isinstance(one, Collection) and isinstance(other, Collection) and one.kind is other.kind:
            return Collection(joined.either(self.core, one.items, other.items), {}, one.kind)
        if _is_module(one) and _is_module(other):
            return END
        return SETTING if isinstance(one, Constant | Setting) and isinstance(other, Constant | Setting) else UNKNOWN

    def truth(self, value: Value, node: s.If | s.IfExp | s.Comprehension) -> bool | None:
        return _holds(value)

    def store(
        self, target: s.Expr | s.Return | s.Assign, base: Value | None, value: Value, source: s.Expr | None = None
    ) -> Value:
        if isinstance(target, s.Item) and isinstance(target.base, s.Name) and isinstance(base, Tensor):
            self.core.frame.names[target.base.id] = FRESH
        return value

    # -- calls

    def call(self, callee: Value, node: s.Call, given: Arguments[Value]) -> Value:
        if isinstance(callee, Class):
            return self.core.objects.make(callee, given)
        if isinstance(callee, External):
            if callee.dotted.startswith("torch."):
                return self._torch(callee, node, given)
            known = _builtin(callee.dotted, given.args) if not given.kwargs else None
            return known if known is not None else _unfollowed(given)
        if isinstance(callee, Unknown | Function):
            return UNKNOWN if isinstance(callee, Function) else _unfollowed(given)
        result = self._through(callee, (given.every or [UNKNOWN])[0], node.func.node, given)
        # outside of a model, what one gives to another (a generator to its critic) is no part of the same chain
        return result if self.core.frame.state else FRESH

    def method(self, base: Value, name: str, node: s.Call, given: Arguments[Value]) -> Value:
        match base:
            case Tensor():
                return self._of_tensor(base, name, node, given)
            case Leaf() | Instance() | Collection() if name in MODULE_PASSTHROUGH:
                return base
            case Instance() if name in ("add_module", "register_module"):
                key, module = given.get(0, "name"), given.get(1, "module")
                if isinstance(key, Constant) and module is not None:
                    self.core.change(base)
                    base.attributes[str(key.value)] = module
                return UNKNOWN
            case Super(owner=Instance() as owner) if name == "__init__" and self._is_row(owner):
                self.core.change(owner)
                owner.attributes.update({str(n): layer for n, layer in enumerate(given.args)})
                return UNKNOWN
            case Collection():
                return self._of_collection(base, name, given)
            case Setting() | Constant():
                return SETTING
            case _:
                return _unfollowed(given)

    def _of_tensor(self, base: Tensor, name: str, node: s.Call, given: Arguments[Value]) -> Value:
        if name in ASIDE:
            return SETTING
        if name.rstrip("_") in MERGES:
            return self._merge([base, *given.args])
        place = node.func.node
        return self.chains.apply(Layer(method_role(name), place, place, SATURATING.get(name, "")), base)

    def _of_collection(self, base: Collection, name: str, given: Arguments[Value]) -> Value:
        if name == "children":
            return Collection(list(base.items))
        if name not in _LOOKS:
            self.core.change(base)
            if name in ("add_module", "register_module") and given.args:
                base.add(given.args[-1])
            else:
                base.items = [Rest(UNKNOWN)]  # `insert`, `pop`: what is where is not known any more
        return UNKNOWN

    # -- torch

    def _torch(self, named: External, node: s.Call, given: Arguments[Value]) -> Value:
        dotted, args = named.dotted, given.args
        name = dotted.rpartition(".")[2]
        if dotted.endswith("nn.Sequential"):
            return self._sequential(given)
        if name == "ModuleList":
            return Collection(
                list(args[0].items) if args and isinstance(args[0], Collection) else [Rest(UNKNOWN)] * len(args)
            )
        if dotted == "torch.utils.checkpoint.checkpoint" and len(args) > 1:
            return self.core.call(args[0], node, given.without_first())
        role = module_role(dotted)
        if role is not None:
            return Leaf(Layer(role, named.node, named.node, SATURATING.get(name, "")))
        if dotted.startswith("torch.nn.utils."):
            return END
        role = function_role(dotted)
        if role is None:
            return UNKNOWN
        if name in MERGES:
            return self._merge(args[0].items if args and isinstance(args[0], Collection) else args)
        layer = Layer(role, named.node, node.func.node, SATURATING.get(name, ""))
        return self.chains.apply(layer, given.every[0] if given.every else UNKNOWN)

    def _sequential(self, given: Arguments[Value]) -> Value:
        parts = given.args
        if len(parts) == 1 and isinstance(parts[0], Collection) and parts[0].kind is not Kind.ROW:
            parts = parts[0].parts  # an OrderedDict
        made = Collection([*parts, *([Rest(UNKNOWN)] if given.kwargs or given.starred else [])], {}, Kind.ROW)
        self._rows.append(made)
        self._through(made, FRESH)
        return made

    def _is_row(self, module: Instance) -> bool:
        foreign = self.core.classes_of(module.cls.node).foreign(module.cls.node)
        return any(base.endswith("Sequential") for base in foreign)

    def _through(
        self, module: Value, tensor: Value, used: int | None = None, given: Arguments[Value] | None = None
    ) -> Value:
        """What comes out of a module; what is no module that is known gives a tensor with nothing behind it."""
        match module:
            case Leaf():
                return self.chains.apply(module.layer if used is None else replace(module.layer, used=used), tensor)
            case Rest(value=Leaf(layer)) if layer.role is Role.NEUTRAL:
                return tensor
            case Collection(kind=Kind.ROW):
                return self._one_by_one(module.items, tensor)
            case Instance():
                forward = self.core.objects.member(module, "forward")
                if forward is not None:
                    call = s.Call(module.cls.node.node, s.Name(module.cls.node.node, ""), [], {})
                    return self.core.call(forward, call, given or Arguments([tensor]))
                row = self._is_row(module)
                return self._one_by_one([*module.attributes.values()], tensor) if row else FRESH
            case _:
                return FRESH

    def _one_by_one(self, modules: list[Value], tensor: Value) -> Value:
        for module in modules:
            tensor = self._through(module, tensor)
        return tensor


def _items(value: Value) -> list[Value] | None:
    """What a collection is known to hold, and nothing else."""
    if isinstance(value, Collection) and value.whole and not value.entries and len(value.items) <= LONGEST:
        return value.items
    return None


def _plain(value: Value) -> Value:
    """A number is what the code says. A switch, a name or an activation is left to the caller."""
    items = value.items if isinstance(value, Collection) else [value]
    plain = all(isinstance(x, Constant) and type(x.value) in (int, float) for x in items)
    return value if plain else SETTING


def _compared(op: str, left: Value, right: Value) -> Value:
    if op in ("is", "is not") and right == Constant(None) and not isinstance(left, Setting | Unknown):
        return Constant(op == "is not")
    items = _items(right)
    if op in ("in", "not in") and isinstance(left, Constant) and items is not None:
        if all(isinstance(x, Constant) for x in items):
            return Constant((left in items) == (op == "in"))
    return UNKNOWN


def _unfollowed(given: Arguments[Value]) -> Value:
    return FRESH if any(isinstance(value, Tensor) for value in given.args) else UNKNOWN


def _holds(value: Value) -> bool | None:
    if isinstance(value, Constant):
        return bool(value.value)
    items = _items(value)
    return bool(items) if items is not None else None


def _is_module(value: Value) -> bool:
    return isinstance(value, Leaf | Instance) or (isinstance(value, Collection) and value.kind is Kind.ROW)


def _calls(call: s.Call, name: str, *, method: bool) -> bool:
    """`Net(…)` of a class or a function, `self.build(…)` of a method."""
    if method:
        return isinstance(call.func, s.Attr) and call.func.name == name and s.render(call.func.base) == "self"
    return isinstance(call.func, s.Name) and call.func.id == name


def _builtin(name: str, args: list[Value]) -> Value | None:
    """Python's own functions, as far as they are used to build models; None for any other."""
    known = [_items(arg) for arg in args]
    columns = [column for column in known if column is not None]
    whole = len(columns) == len(args)
    match name.rpartition(".")[2], args:
        case "range", [_, *_]:
            return _range(args)
        case "len", [_]:
            return Constant(len(columns[0])) if whole else SETTING
        case "enumerate", [_, *_]:
            pairs = enumerate(columns[0]) if columns else []
            return Collection([_tuple(Constant(n), x) for n, x in pairs]) if columns else UNKNOWN
        case "zip", [_, *_]:
            return Collection([_tuple(*row) for row in zip(*columns, strict=False)]) if whole else UNKNOWN
        case "reversed", [_]:
            return Collection(columns[0][::-1]) if whole else UNKNOWN
        case (("list" | "tuple"), [Collection() as value]):
            return value.copy()
        case (("deepcopy" | "copy"), [value]):
            return value
        case (("list" | "tuple" | "OrderedDict" | "dict"), []):
            return Collection([], {}, Kind.DICT if "ict" in name else Kind.LIST)
        case (("OrderedDict" | "dict"), [Collection() as value]):
            pairs_of = [x.items if isinstance(x, Collection) and len(x.items) == 2 else None for x in value.items]
            return Collection([Rest(UNKNOWN) if pair is None else pair[1] for pair in pairs_of], {}, Kind.DICT)
        case "int", [Constant() as value]:
            return value
        case (("int" | "float" | "max" | "min" | "round" | "abs" | "sqrt" | "log2" | "bool"), _):
            return SETTING
        case _:
            return None


def _tuple(*values: Value) -> Value:
    return Collection(list(values), {}, Kind.TUPLE)


def _range(bounds: list[Value]) -> Value:
    numbers = [x.value for x in bounds if isinstance(x, Constant) and isinstance(x.value, int)]
    if len(numbers) != len(bounds) or len(numbers) > 3 or numbers[2:] == [0]:
        return UNKNOWN
    turns = range(*numbers)
    return Collection([Constant(n) for n in turns]) if len(turns) <= LONGEST else UNKNOWN


def _saturating_words(program: Module) -> set[str]:
    """What the file calls them: `from torch import tanh as squash`."""
    return {*SATURATING} | {
        local
        for local, dotted in program.imports.items()
        if dotted.startswith("torch") and dotted.rpartition(".")[2] in SATURATING
    }


def _imported_builders(program: Module) -> set[str]:
    """What the file calls the functions and classes of other files that have one in them."""
    return {local for local, dotted in program.imports.items() if _has_saturating(program.elsewhere(dotted))}


def _has_saturating(found: Definition | None) -> bool:
    return (
        found is not None
        and found.node is not None
        and not found.program.words(found.node.body).seen.isdisjoint(SATURATING)
    )


def _with_saturating(program: Module) -> set[str]:
    """The functions and classes with a saturating activation in them, and those that use one of these."""
    seen: dict[str, set[str]] = {}
    for stmt in program.statements():
        if isinstance(stmt, s.Def | s.Class):
            seen.setdefault(stmt.name, set()).update(program.own_words(stmt.body).seen)
    activations = _saturating_words(program) | _imported_builders(program)
    wanted = {name for name, words in seen.items() if words & activations}
    while True:
        more = {name for name, words in seen.items() if name not in wanted and words & wanted}
        if not more:
            return wanted
        wanted |= more
