"""The values of Python that are followed: constants, collections, functions, classes and their objects, imports.

And what is asked of a domain, which adds values of its own."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol

from gradlint.python import syntax as s
from gradlint.records import dataclass, field

if TYPE_CHECKING:
    from gradlint.python.calls import Arguments
    from gradlint.python.evaluate import Evaluator
    from gradlint.python.frame import Frame

#: no collection is made longer than this
LONGEST = 64


class Value:
    """Anything that an expression gives."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """How it is called where somebody tells of it."""
        return ""

    def signature(self) -> object:
        """Two values with the same signature lead a function to the same result."""
        return self


@dataclass(slots=True)
class Constant(Value):
    """A number, a string, True, False or None."""

    value: s.ConstValue

    @property
    def key(self) -> str:
        return s.constant_text(self.value)

    def signature(self) -> object:
        return type(self.value), self.value


class Kind(enum.Enum):
    """What holds several values."""

    LIST = "list"
    TUPLE = "tuple"
    DICT = "dict"
    #: an object that is nothing but its fields: a dataclass, a NamedTuple
    RECORD = "record"
    #: what gives its values once
    GENERATOR = "generator"
    #: modules that run one after the other
    ROW = "row"


@dataclass(slots=True, eq=False)
class Rest(Value):
    """In a collection: any number of these."""

    value: Value

    def signature(self) -> object:
        return Rest, self.value.signature()


@dataclass(slots=True, eq=False)
class Collection(Value):
    """Several values, by position and by key; one under a key that is not known counts as one by position."""

    items: list[Value] = field(default_factory=list)
    entries: dict[str, Value] = field(default_factory=dict)
    kind: Kind = Kind.LIST
    #: where it is written
    expr: s.Expr | None = None

    @property
    def key(self) -> str:
        return s.render(self.expr)

    def signature(self) -> object:
        return (
            self.kind, tuple([item.signature() for item in self.items]),
            tuple([(key, value.signature()) for key, value in self.entries.items()]),
        )  # fmt: skip

    @property
    def whole(self) -> bool:
        """All of its items are known, and there are no more."""
        return not any(isinstance(item, Rest) for item in self.items)

    @property
    def parts(self) -> list[Value]:
        """What it holds, by whatever name."""
        return [*self.items, *self.entries.values()]

    @property
    def each(self) -> list[Value]:
        """The same; of what there may be any number of, one."""
        found = [x.value if isinstance(x, Rest) else x for x in self.items]
        return [*found, *self.entries.values()] if self.entries else found

    def at(self, index: Value) -> Value | None:
        """What a constant picks; None if that is not known."""
        key = index.value if isinstance(index, Constant) else None
        if isinstance(key, str):
            return self.entries.get(key)
        if not isinstance(key, int) or not -len(self.items) <= key < len(self.items):
            return None
        before = self.items[: key + 1] if key >= 0 else self.items[key:]
        return None if any(isinstance(item, Rest) for item in before) else self.items[key]

    def between(self, bounds: list[Value]) -> Collection | None:
        """`[a:b]`, `[:-1]` and `[1:]`; the small tree does not tell `[:-1]` from `[-1:]`, which is rare."""
        numbers = [x.value for x in bounds if isinstance(x, Constant) and isinstance(x.value, int)]
        if len(numbers) != len(bounds) or self.entries:
            return None
        match numbers:
            case [1] if self.at(Constant(0)) is not None:
                items = self.items[1:]
            case [-1] if self.whole:
                items = self.items[:-1]
            case [low, high] if self.whole:
                items = self.items[low:high]
            case _:
                return None
        return Collection(items, {}, self.kind, self.expr)

    def add(self, value: Value) -> None:
        """One more, as long as there are not too many."""
        if len(self.items) < LONGEST:
            self.items.append(value)

    def put(self, index: Value, value: Value) -> bool:
        """An entry under a key, or in the place of an item; False if nobody knows which one it is."""
        key = index.value if isinstance(index, Constant) else None
        if isinstance(key, str):
            self.entries[key] = value
        elif isinstance(key, int) and self.whole and -len(self.items) <= key < len(self.items):
            self.items[key] = value
        elif self.kind is Kind.DICT:
            self.add(value)
        else:
            return False
        return True

    def copy(self) -> Collection:
        return Collection(list(self.items), dict(self.entries), self.kind, self.expr)


def pair(key: Value, value: Value) -> Value:
    """One of what `items()` gives."""
    many = isinstance(value, Rest)
    both = Collection([key, value.value if isinstance(value, Rest) else value], {}, Kind.TUPLE)
    return Rest(both) if many else both


def by_key(found: list[Value]) -> Collection:
    """The pairs of a dict's comprehension."""
    made = Collection()
    for one in found:
        both = one.value if isinstance(one, Rest) else one
        key, value = both.items if isinstance(both, Collection) and len(both.items) == 2 else (both, both)
        if isinstance(key, Constant) and isinstance(key.value, str):
            made.entries[key.value] = value
        else:
            made.items.append(Rest(value) if isinstance(one, Rest) else value)
    return made


@dataclass(frozen=True, slots=True)
class External(Value):
    """Something imported, or of Python's own; the full dotted name, and where it is named (-1: where it is used)."""

    dotted: str
    node: int = -1

    @property
    def key(self) -> str:
        return self.dotted


@dataclass(slots=True, eq=False)
class Function(Value):
    """A function or lambda of the project; a method belongs to its object."""

    node: s.Def | s.Lambda
    #: the frame it was defined in
    outer: Frame
    owner: Value | None = None
    key: str = ""


@dataclass(slots=True, eq=False)
class Class(Value):
    node: s.Class
    outer: Frame

    @property
    def key(self) -> str:
        return self.node.name


@dataclass(slots=True, eq=False)
class Bound(Value):
    """A method that was looked up but not called: `model.no_sync`."""

    base: Value
    name: str

    @property
    def key(self) -> str:
        return f"{self.base.key}.{self.name}"


@dataclass(slots=True, eq=False)
class Partial(Value):
    """What is called with these arguments and those that it is given then."""

    func: Value
    given: Arguments[Value]
    #: where it was made
    expr: s.Expr

    @property
    def key(self) -> str:
        return s.render(self.expr)


@dataclass(slots=True, eq=False)
class Instance(Value):
    """An object of a class of the project."""

    cls: Class
    #: what its constructor is given; None if nobody knows
    given: Arguments[Value] | None = None
    attributes: dict[str, Value] = field(default_factory=dict)
    #: the constructor ran
    ready: bool = False

    def copy(self) -> Instance:
        return Instance(self.cls, self.given, dict(self.attributes), self.ready)


@dataclass(slots=True, eq=False)
class Super(Value):
    """`super()`: an object as the bases of a class see it."""

    owner: Value
    cls: s.Class | None


@dataclass(frozen=True, slots=True)
class Turns:
    """What a loop gives: these values, one after the other; or else any number of times one of them."""

    values: list[Value]
    whole: bool = False


class Enough(Exception):  # noqa: N818 - an end, not an error
    """The budget is spent; what was seen until here counts."""


class Domain(Protocol):
    """What a domain says of values. The evaluator knows Python's own; all others it hands over."""

    def unknown(self, name: str) -> Value:
        """What is known of something by its name alone."""

    def parameter(self, param: s.Param, given: Value | None, default: Value | None, frame: Frame) -> Value:
        """The value of a parameter of a function, of which the name may say more than what is given."""

    def attribute(self, base: Value, expr: s.Attr) -> Value | None:
        """Asked first; None leaves it to Python."""

    def call(self, callee: Value, node: s.Call, given: Arguments[Value]) -> Value:
        """Calls what is no function of the project, makes an object of a class, or tells what a call gives that is not
        followed."""

    def method(self, base: Value, name: str, node: s.Call, given: Arguments[Value]) -> Value:
        """Calls a method that the file does not define."""

    def operate(self, expr: s.Expr, values: list[Value]) -> Value:
        """An operator, a comparison, or an expression of which only the parts are known; a comprehension with what it
        gives, a choice with its condition and what was chosen."""

    def item(self, base: Value, index: Value | None, expr: s.Expr) -> Value:
        """An item, or (without an index) the part of a value that a name of several gets."""

    def iterate(self, value: Value, target: s.Expr | None) -> Turns:
        """What a loop over a value gives to its target."""

    def join(self, one: Value, other: Value) -> Value:
        """What is known when either may be the case."""

    def truth(self, value: Value, node: s.If | s.IfExp | s.Comprehension) -> bool | None:
        """Whether the condition holds that something asks for; None if both may be."""

    def store(
        self, target: s.Expr | s.Return | s.Assign, base: Value | None, value: Value, source: s.Expr | None = None
    ) -> Value:
        """A value gets a name (of a class body: by that statement), becomes a part of something (by a call), or is
        returned; gives it back. `source` is how it is written, where that is known."""

    def enter(self, frame: Frame, caller: Frame) -> object:
        """What the domain remembers of a call while it runs; it may switch gradients off in its frame."""


class Flow(Protocol):
    """How code is run: branches joined, or one of them taken."""

    def follow(self, ev: Evaluator, function: Function, node: s.Node, given: Arguments[Value]) -> Value:
        """A call of a function of the project, which `ev.enter` goes into."""

    def returned(self, ev: Evaluator, function: Function, node: s.Node) -> Value:
        """Runs the body of a function that was entered; gives what it returns."""

    def elsewhere(self, ev: Evaluator, expr: s.Expr, frame: Frame, name: str) -> Value:
        """The value of a name of another file, which the code there says."""
