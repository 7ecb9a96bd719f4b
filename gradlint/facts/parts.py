"""What a model is built of: layers, through attributes, containers, classes and factories of the project."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradlint.events import Site
from gradlint.knowledge import architectures as known
from gradlint.knowledge import torch_api as api
from gradlint.knowledge.architectures import Kind
from gradlint.knowledge.frameworks import BASES
from gradlint.python import syntax as s
from gradlint.python.binding import called
from gradlint.python.classes import Classes
from gradlint.python.scope import Scope, Scopes
from gradlint.records import dataclass, replace

if TYPE_CHECKING:
    from gradlint.python.module import Module

_DEPTH = 8
_PASS_ON = api.DDP | api.FSDP1 | api.FSDP2 | api.TRANSPARENT | {"deepcopy", "to_device", "prepare", "setup"}
_NUMBERED = re.compile(r"^(\w+)#\d+$")


@dataclass(frozen=True, slots=True)
class Part:
    """A layer, or a model from elsewhere: what it is, what the file calls it, and where it is made."""

    kind: Kind
    name: str
    site: Site
    #: the class of the file that holds it
    holder: str = ""


@dataclass(frozen=True, slots=True)
class Build:
    """What was found in a model."""

    parts: tuple[Part, ...] = ()
    #: nothing in it is unknown
    whole: bool = True
    #: it is handed in by another file
    outside: bool = False

    def __bool__(self) -> bool:
        return bool(self.parts)

    def join(self, other: Build) -> Build:
        return Build(self.parts + other.parts, self.whole and other.whole, self.outside or other.outside)

    def of(self, kinds: Iterable[Kind]) -> Part | None:
        wanted = frozenset(kinds)
        return next((p for p in self.parts if p.kind in wanted), None)


UNKNOWN = Build(whole=False)
_OUTSIDE = Build(whole=False, outside=True)
_NOTHING = Build()


class Parts:
    """Takes models apart, as far as the project shows them."""

    def __init__(self, scopes: Scopes) -> None:
        self._scopes = scopes
        self._program = scopes.program
        self._lines = scopes.program.once(Classes)
        self._callees = scopes.program.callees
        self._classes: dict[int, Build] = {}
        self._busy: set[tuple[int, str]] = set()

    # -- a model by the name that the interpreter has for it

    def of_owner(self, owner: str, scopes: list[Scope]) -> Build:
        """`scopes`: the functions in which the model may have its name, the nearest first."""
        head, _, rest = owner.partition(".")
        numbered = _NUMBERED.match(head)
        steps = rest.split(".") if rest else []
        if numbered and numbered[1] in self._program.classes:
            return self._along(self._program.classes[numbered[1]], steps)
        if head == "self":
            cls = next((h.cls for h in scopes if h.cls is not None), None)
            return self._along(cls, steps) if cls is not None else UNKNOWN
        if not head.isidentifier():
            return UNKNOWN
        found = UNKNOWN
        for scope in (*scopes, self._scopes.module):
            one = self._name(head, scope, 0)
            if one:
                return self._inner(head, scope, steps) if steps else one
            found = found.join(one)
        elsewhere = [b for b in (self._bound(head, h, 0) for h in self._scopes.all if head in h.names) if b]
        return elsewhere[0] if elsewhere and not steps else found

    def roots(self) -> list[tuple[s.Class, Build]]:
        """The models that the file defines and that are no part of another one of them."""
        modules = [c for c in self._program.classes.values() if self._is_module(c)]
        used = {part.id for c in modules for part in _expressions(c) if isinstance(part, s.Name)}
        bases = {s.render(b) for c in modules for b in c.bases}
        return [(c, self.of_class(c)) for c in modules if c.name not in used | bases]

    def _there(self, definition: s.Class | s.Def) -> Parts:
        """Those of the file that defines it."""
        program = self._program.owner(definition.node)
        return self if program is self._program else program.once(_of_program)

    def _along(self, cls: s.Class, steps: list[str]) -> Build:
        """`encoder.rnn` of a class: the attribute of the attribute."""
        there = self._there(cls)
        if there is not self:
            return there._along(cls, steps)
        if not steps:
            return self.of_class(cls)
        key = (id(cls), steps[0])
        if key in self._busy:
            return _NOTHING  # `self.model = wrap(self.model)`: the other binding says what it is
        self._busy.add(key)
        try:
            return self._attribute(cls, steps)
        finally:
            self._busy.discard(key)

    def _attribute(self, cls: s.Class, steps: list[str]) -> Build:
        bound = self._lines.attribute(cls, steps[0])
        found = _NOTHING if bound else UNKNOWN
        for binding, scope in bound:
            if len(steps) == 1:
                found = found.join(self.of(binding.value, scope))
            else:
                inner = self._class_of(binding.value, scope)
                found = found.join(self._along(inner, steps[1:]) if inner is not None else UNKNOWN)
        return found

    def _inner(self, name: str, scope: Scope, steps: list[str]) -> Build:
        bound = self._scopes.bindings(name, scope)
        for binding in bound[0] if bound is not None else ():
            cls = self._class_of(binding.value, scope)
            if cls is not None:
                return self._along(cls, steps)
        return UNKNOWN

    # -- expressions

    def of(self, expr: s.Expr, scope: Scope, depth: int = 0) -> Build:
        """What the module that an expression makes, or stands for, is built of."""
        if depth > _DEPTH:
            return UNKNOWN
        match expr:
            case s.Name():
                return self._name(expr.id, scope, depth)
            case s.Attr(base=s.Name(id="self")) if scope.cls is not None:
                return self._along(scope.cls, [expr.name])
            case s.Attr() if expr.name in ("module", "model", "_orig_mod"):
                return self.of(expr.base, scope, depth + 1)
            case s.Call():
                return self._call(expr, scope, depth + 1)
            case s.IfExp():
                return self._all([expr.then, expr.other], scope, depth + 1)
            case s.Sequence():
                return self._all(expr.items, scope, depth + 1)
            case s.Dict():
                return self._all([value for _, value in expr.pairs], scope, depth + 1)
            case s.Star():
                return self.of(expr.value, scope, depth + 1)
            case s.Comprehension():
                return self.of(expr.element, scope, depth + 1)
            case s.Const() | s.Compare():
                return _NOTHING
            case s.Bin():
                return self._all([expr.left, expr.right], scope, depth + 1)
            case _:
                return UNKNOWN

    def _name(self, name: str, scope: Scope, depth: int) -> Build:
        if (id(scope), name) in self._busy:
            return _NOTHING  # `model = wrap(model)`: the other binding says what it is
        self._busy.add((id(scope), name))
        try:
            bound = self._scopes.bindings(name, scope)
            if bound is not None:
                return self._bound(name, bound[1], depth)
            handed = [self.of(value, place, depth + 1) for value, place in self._scopes.handed(name, scope)]
            annotation = self._scopes.annotation(name, scope)
            if annotation is not None:
                handed.append(self._type(annotation, scope))
            return _joined(handed) if handed else _OUTSIDE
        finally:
            self._busy.discard((id(scope), name))

    def _bound(self, name: str, scope: Scope, depth: int) -> Build:
        return _joined(self.of(binding.value, scope, depth + 1) for binding in scope.names[name])

    def _all(self, exprs: Iterable[s.Expr], scope: Scope, depth: int) -> Build:
        return _joined(self.of(expr, scope, depth) for expr in exprs)

    # -- calls

    def _call(self, call: s.Call, scope: Scope, depth: int) -> Build:
        func = call.func
        dotted = self._scopes.dotted(func, scope)
        tail = func.name if isinstance(func, s.Attr) else dotted.rpartition(".")[2]
        if tail in known.CONTAINERS:
            return self._all([*call.args, *call.kwargs.values()], scope, depth)
        if tail in _PASS_ON and (call.args or call.kwargs):
            first = call.args[0] if call.args else call.kwargs.get("module") or call.kwargs.get("model")
            return self.of(first, scope, depth) if first is not None else UNKNOWN
        if isinstance(func, s.Attr):
            if tail in api.MODULE_PASSTHROUGH:
                return self.of(func.base, scope, depth)
            if tail.startswith("from_") or tail == "load_from_checkpoint":
                return self._type(func.base, scope)
        zoo = self._zoo(call, dotted, tail)
        if zoo is not None:
            return zoo
        made = self._callees.functions(func, scope)
        if made:
            return _joined(self._returned(function, depth) for function in made)
        return self._type(func, scope, call)

    def _returned(self, function: s.Def, depth: int) -> Build:
        there = self._there(function)
        if there is not self:
            return there._returned(function, depth)
        scope = self._scopes.of_def.get(function.node)
        returns = [x for x in s.walk_stmts(function.body) if isinstance(x, s.Return)]
        values = [x.value for x in returns if x.value is not None]
        return self._all(values, scope, depth + 1) if scope is not None and values else UNKNOWN

    def _zoo(self, call: s.Call, dotted: str, tail: str) -> Build | None:
        """`timm.create_model("resnet50")`, `torchvision.models.resnet18()`."""
        if not dotted.startswith(known.ZOOS):
            return None
        first = next((a.value for a in call.args if isinstance(a, s.Const) and isinstance(a.value, str)), tail)
        name = str(first) if tail in ("create_model", "get_model") else tail
        kind = Kind.ATTENTION if known.NAMED_ATTENTION.search(name) else None
        if kind is None and known.TELLING_CONVOLUTION.search(name):
            kind = Kind.CONVOLUTION
        return self._one(kind, name, call) if kind is not None else UNKNOWN

    # -- classes

    def _type(self, expr: s.Expr, scope: Scope, call: s.Call | None = None) -> Build:
        """An object of the class that an expression means where it stands."""
        own = self._class(expr, scope)
        if own is not None:
            return self._there(own).of_class(own)
        dotted, text = self._scopes.dotted(expr, scope), s.render(expr)
        tail = dotted.rpartition(".")[2]
        at = call or expr
        if dotted.startswith("torch.nn.") and tail[:1].isupper():
            return self._one(known.LAYERS.get(tail, Kind.PLAIN), text, at)
        if known.PRETRAINED.search(dotted) or known.PRETRAINED_BARE.search(dotted):
            return self._one(Kind.ATTENTION, text, at)
        if dotted != tail and not dotted.startswith("torch."):
            for pattern, kind in _TELLING:
                if pattern.search(tail):
                    return self._one(kind, text, at)
        if dotted.startswith(("torch.", "builtins.")) or (call is not None and tail in _NUMBERS):
            return _NOTHING
        return UNKNOWN

    def _class(self, expr: s.Expr, scope: Scope) -> s.Class | None:
        """A class of this file, or of another of the project."""
        return next(iter(self._callees.classes_named(expr, scope)), None)

    def _one(self, kind: Kind, text: str, at: s.Node) -> Build:
        return Build((Part(kind, text, self._program.site(at)),))

    def of_class(self, cls: s.Class) -> Build:
        """What its methods keep in `self`, and what its bases bring along."""
        found = self._classes.get(cls.node)
        if found is None:
            self._classes[cls.node] = _NOTHING  # a class that holds itself
            found = self._classes[cls.node] = self._take_apart(cls)
        return found

    def _take_apart(self, cls: s.Class) -> Build:
        found = _NOTHING
        place = self._scopes.of(cls.node)
        for base in cls.bases:
            if self._scopes.dotted(base, place) not in _BARE_BASES:
                found = found.join(self._type(base, place))
        run = {s.render(part.func) for part in _expressions(cls) if isinstance(part, s.Call)}
        for name, values in self._scopes.attributes.get(cls.node, {}).items():
            for binding, scope in values:
                handed_over = isinstance(binding.value, s.Name) and f"self.{name}" in run
                if _keeps_module(binding.value) or handed_over:
                    found = found.join(self.of(binding.value, scope, 1))
        attention = self._by_hand(cls)
        parts = (*attention, *found.parts)
        # the outermost class that holds a part gives its name
        return Build(tuple(replace(part, holder=cls.name) for part in parts), found.whole)

    def _by_hand(self, cls: s.Class) -> Iterator[Part]:
        """An attention layer without nn.MultiheadAttention: linear projections to queries, keys and values."""
        linear = {
            name: binding.value
            for name, values in self._scopes.attributes.get(cls.node, {}).items()
            for binding, scope in values
            if isinstance(binding.value, s.Call) and self._scopes.dotted(binding.value.func, scope).endswith("Linear")
        }
        keys = any(known.KEY.search(name) for name in linear)
        for name, value in linear.items():
            if known.PROJECTION.search(name) or (keys and known.QUERY.search(name)):
                yield Part(Kind.ATTENTION, f"self.{name}", self._program.site(value))
                return

    def _class_of(self, expr: s.Expr, scope: Scope, depth: int = 0) -> s.Class | None:
        """The class whose object an expression is."""
        if depth > 4:
            return None
        if isinstance(expr, s.Call):
            if isinstance(expr.func, s.Attr) and expr.func.name in api.MODULE_PASSTHROUGH:
                return self._class_of(expr.func.base, scope, depth + 1)
            if called(expr) in _PASS_ON and expr.args:
                return self._class_of(expr.args[0], scope, depth + 1)
            return self._class(expr.func, scope)
        for value, place in self._values(expr, scope):
            found = self._class_of(value, place, depth + 1)
            if found is not None:
                return found
        return None

    def _values(self, expr: s.Expr, scope: Scope) -> Iterator[tuple[s.Expr, Scope]]:
        if isinstance(expr, s.Name):
            bound = self._scopes.bindings(expr.id, scope)
            if bound is not None:
                yield from ((binding.value, bound[1]) for binding in bound[0])
            else:
                yield from self._scopes.handed(expr.id, scope)
        elif isinstance(expr, s.Attr) and s.render(expr.base) == "self" and scope.cls is not None:
            yield from ((binding.value, place) for binding, place in self._lines.attribute(scope.cls, expr.name))

    def forward_of(self, call: s.Call, scope: Scope) -> s.Def | None:
        """`model(x)`: the forward of its class, if the file has it."""
        cls = self._class_of(call.func, scope) if isinstance(call.func, s.Name | s.Attr) else None
        return self._lines.method(cls, "forward") if cls is not None and self._there(cls) is self else None

    def _is_module(self, cls: s.Class) -> bool:
        line = self._lines.lineage(cls)
        if any(re.search(r"(?i)loss|criterion|metric", one.name) for one in line):
            return False
        return any(base.rpartition(".")[2] in _MODULES for base in self._lines.foreign(cls))


_MODULES = {"Module", "PreTrainedModel"} | BASES
_BARE_BASES = {"object", "torch.nn.Module", "nn.Module", "Module", "abc.ABC", "ABC", "typing.Generic"}
_NUMBERS = {
    "int", "float", "bool", "str", "len", "list", "dict", "tuple", "set", "range", "max", "min", "round", "super",
}  # fmt: skip
_TELLING = (
    (known.TELLING_ATTENTION, Kind.ATTENTION),
    (known.TELLING_RECURRENT, Kind.RECURRENT),
    (known.TELLING_CONVOLUTION, Kind.CONVOLUTION),
)


def _of_program(program: Module) -> Parts:
    return Parts(program.once(Scopes))


def _joined(builds: Iterable[Build]) -> Build:
    found = _NOTHING
    for build in builds:
        found = found.join(build)
    return found


def _keeps_module(value: s.Expr) -> bool:
    """A call, or several in a display: numbers and names that are kept say nothing."""
    return any(isinstance(part, s.Call) for part in s.walk_expr(value))


def _expressions(cls: s.Class) -> Iterator[s.Expr]:
    """All of them, with their parts."""
    for stmt in s.walk_stmts(cls.body):
        for expr in s.expressions(stmt):
            yield from s.walk_expr(expr)
