"""The state of a function that is being followed, and where names are looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.facts.numerics.facts import (
    DATA,
    UNKNOWN,
    Chain,
    ClassRef,
    Fact,
    Items,
    Model,
    Object,
    Ref,
    Routine,
    Value,
    as_fact,
    join,
)
from gradlint.facts.numerics.operations import LOSSES, Operation
from gradlint.knowledge import naming
from gradlint.knowledge import tensor_api as api
from gradlint.knowledge.torch_api import USUAL_NAMES
from gradlint.python import syntax as s
from gradlint.python.classes import Classes
from gradlint.records import dataclass, field
from gradlint.subjects import Kind, Low

if TYPE_CHECKING:
    from gradlint.python.module import Program

#: values that change in place
Container = Items | Chain | Object

#: expressions that are evaluated in one file before we give up
BUDGET = 60_000
MAX_DEPTH = 7

_OF_MODELS = frozenset({"forward", "__call__"})
_FACTS = tuple(Fact.__annotations__)


class Enough(Exception):  # noqa: N818 - an end, not an error
    """The budget is spent; what was seen until here counts."""


@dataclass(slots=True, eq=False)
class Frame:
    """One call of a function (or the top of the file)."""

    function: s.Def | None = None
    owner: Object | None = None
    env: dict[str, Value] = field(default_factory=dict)
    #: names of the function round this one
    outer: dict[str, Value] | None = None
    no_grad: int = 0
    #: what happens here is not trained on: an evaluation, a sample
    quiet: bool = False
    #: what it returns is a loss
    loss: bool = False
    returns: list[Value] = field(default_factory=list)
    depth: int = 0


class Frames:
    """Names, sinks and delicate operations: what every layer above needs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.classes = program.once(Classes)
        self.module: dict[str, Value] = {}
        self.frame = Frame(env=self.module)
        self.operations: list[Operation] = []
        self.budget = BUDGET
        #: what containers held before the branches that are running changed them
        self.journals: list[dict[int, tuple[Container, Container]]] = []
        #: functions that somebody in this file calls, as far as it was followed
        self.followed: set[int] = set()

    # -- names

    def look_up(self, name: str) -> Value:
        for env in (self.frame.env, self.frame.outer, self.module):
            if env is not None and name in env:
                return env[name]
        program = self.program
        if name in program.functions and name not in program.imports:
            return Routine(program.functions[name][-1])
        if name in program.classes:
            return ClassRef(program.classes[name])
        if name in program.imports:
            return Ref(program.imports[name])
        if name in USUAL_NAMES:
            return Ref(USUAL_NAMES[name])
        return by_name(name)

    def dotted(self, expr: s.Expr) -> str:
        """The full name of what an expression means here; "" where it is no name."""
        match expr:
            case s.Name():
                found = self.look_up(expr.id)
                return found.dotted if isinstance(found, Ref) else expr.id
            case s.Attr():
                base = self.dotted(expr.base)
                return f"{base}.{expr.name}" if base else ""
            case _:
                return ""

    def change(self, container: Container) -> None:
        """Something is about to be put into a container that others may hold, too."""
        for journal in self.journals:
            if id(container) not in journal:
                journal[id(container)] = (container, copy_of(container))

    # -- delicate operations, and where they lead

    def operate(
        self, kind: Kind, node: s.Call | s.Bin, operand: s.Expr, fact: Fact, *,
        made: s.Call | None = None, other: Fact | None = None,
    ) -> Operation | None:  # fmt: skip
        if self.frame.no_grad:
            return None
        function, near = self.frame.function, self._near()
        operation = Operation(self.program, kind, node, operand, fact, function, False, made, other, near)
        if kind in LOSSES:
            operation.reached = not self.frame.quiet
        self.operations.append(operation)
        return operation

    def _near(self) -> bool:
        """What stands in a model's forward, or in a helper of it, is far from the loss."""
        function, owner = self.frame.function, self.frame.owner
        if self.frame.loss or function is None:
            return True
        if owner is not None and owner.cls is not None and api.LOSS_CLASS.search(owner.cls.name):
            return True
        return function.name not in _OF_MODELS and "backward" in self.program.own_words(function.body).called

    def reach(self, value: Value) -> None:
        """A value turns out to be (a part of) a loss."""
        if self.frame.quiet or self.frame.no_grad:
            return
        for operation in as_fact(value).ops:
            operation.reached = True


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


def copy_of(container: Container) -> Container:
    match container:
        case Items():
            return Items(list(container.items), dict(container.entries))
        case Chain():
            return Chain(list(container.layers))
        case _:
            return Object(attributes=dict(container.attributes))


def restore(container: Container, state: Container) -> None:
    """Puts back what a container held."""
    if isinstance(container, Items) and isinstance(state, Items):
        container.items, container.entries = list(state.items), dict(state.entries)
    elif isinstance(container, Chain) and isinstance(state, Chain):
        container.layers = list(state.layers)
    elif isinstance(container, Object) and isinstance(state, Object):
        container.attributes = dict(state.attributes)


def merged(one: Container, other: Container) -> Container:
    """What a container may hold when it is in one of two states."""
    if isinstance(one, Items) and isinstance(other, Items):
        entries = {**one.entries, **other.entries}
        return Items(
            _merged_lists(one.items, other.items),
            {k: join(one.entries.get(k, UNKNOWN), other.entries.get(k, UNKNOWN)) for k in entries},
        )
    if isinstance(one, Chain) and isinstance(other, Chain):
        return Chain(_merged_lists(one.layers, other.layers))
    assert isinstance(one, Object)
    assert isinstance(other, Object)
    names = {**one.attributes, **other.attributes}
    held = {n: join(one.attributes.get(n, UNKNOWN), other.attributes.get(n, UNKNOWN)) for n in names}
    return Object(attributes=held)


def _merged_lists(one: list[Value], other: list[Value]) -> list[Value]:
    """The same beginning, and then something that is not known."""
    if len(one) == len(other):
        return [join(a, b) for a, b in zip(one, other, strict=True)]
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a is not b), min(len(one), len(other)))
    return [*one[:same], UNKNOWN]


def signature(value: Value) -> object:
    """Two values with the same signature lead a function to the same result."""
    if isinstance(value, Fact):
        return tuple(getattr(value, name) for name in _FACTS)
    if isinstance(value, Items):
        return (tuple(map(signature, value.items)), tuple((k, signature(v)) for k, v in value.entries.items()))
    return id(value)
