"""What a row of knowledge may be: the verbs in which torch and the frameworks on top of it are described.

`Makes`, `Does`, `Opens`, `Passes`, `Calls` and `Configures`. A name without a dot is a method. One with a dot is a
function or class; `*` in it stands for a part of a name, and `**.` for any modules, or none. What no verb can say is a
small function in the framework's file, named by the row; it sees plain arguments (`Given`, `OwnClass`), not the
interpreter's values.

Every row gives the words by which a file that it can speak of is known, and one that gives none is refused.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable, Mapping
from typing import Protocol

from gradlint.events import ClipKind, Event
from gradlint.records import dataclass, field

#: a shorter part of a name is in half of all files
_SHORTEST = 3


class Thing(enum.Enum):
    """What a row makes, or whose method it is."""

    #: the framework's own object: an Accelerator
    OBJECT = "an object of the framework"
    #: a model that has its optimizer inside
    ENGINE = "an engine"
    TENSOR = "a tensor"
    OPTIMIZER = "an optimizer"
    SCHEDULER = "a scheduler"
    SCALER = "a gradient scaler"
    #: a wrapper that distributes a model
    WRAPPER = "a distributed model"
    #: an object of a class that the file derives from one of the framework's: see `Calls`
    SUBCLASS = "an object of a derived class"
    #: what is handed to the framework's object and holds some of its settings
    PLUGIN = "a plugin"
    #: something that is known by its text alone
    TEXT = "something"


class Switch(enum.Enum):
    """What a `with` or a decorator switches."""

    #: each turn is a micro-batch of the framework's window
    WINDOW = "a window"
    NO_SYNC = "no synchronisation"
    AUTOCAST = "autocasting"
    #: it gives the loss to run the backward of
    LOSS = "a scaled loss"
    NO_GRAD = "no gradients"
    GRAD = "gradients again"
    #: it depends on a value: `set_grad_enabled(training)`
    EITHER = "gradients or not"
    #: what is entered later
    STACK = "a stack of contexts"
    OTHER = "something else"


class Setting(enum.Enum):
    """What a framework is told once, not in the loop."""

    LIMIT = "a limit of gradients"
    WINDOW = "a number of micro-batches"
    #: the file divides a loss, and the framework does it again
    DIVISION = "a loss that is divided twice"


#: what a row speaks of
About = type[Event] | Thing | Switch | Setting


@dataclass(frozen=True, slots=True)
class At:
    """An argument: its place, and its names. A negative place: by name only."""

    position: int
    names: tuple[str, ...]


def at(position: int, *names: str) -> At:
    return At(position, names)


LOSS = at(0, "loss")
MODEL = at(0, "module", "model")


@dataclass(frozen=True, slots=True)
class Argument:
    """What the interpreter knows of an argument."""

    text: str
    #: it is a constant, and this one
    constant: bool = False
    value: object = None
    #: the entries of a dict that stands in the file, by key
    entries: Mapping[str, Argument] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of a call."""

    args: tuple[Argument, ...]
    named: Mapping[str, Argument]

    def get(self, where: At) -> Argument | None:
        for name in where.names:
            if name in self.named:
                return self.named[name]
        return self.args[where.position] if 0 <= where.position < len(self.args) else None


class OwnClass(Protocol):
    """A class of the file, derived from one of the framework's."""

    def calls_super(self, method: str) -> bool | None:
        """Whether the method runs what it replaces; None where the class has none of this name."""

    def sets(self, attribute: str, value: object) -> bool:
        """Whether the class sets the attribute to this constant, anywhere."""

    def takes(self, method: str, parameter: str) -> bool:
        """Whether the method can be handed an argument of this name."""


class Row:
    """Names, and the words in them."""

    #: what can be asked for the words of, if it is anything
    about: About | None = None

    def __init__(
        self, names: tuple[str, ...], words: tuple[str, ...] = (), telling: bool = False,
        beside: tuple[str, ...] = (), looks: str = "",
    ) -> None:  # fmt: skip
        """`words`: where better ones than the names can be looked for; `telling`: nobody else has such a method.

        `beside`: words of which one more has to be there; `looks`: a regular expression for one line of the file.
        """
        self.names = names
        self.beside = frozenset(beside)
        self.looks = looks
        self.telling = telling
        self.words = frozenset(words or map(last_word, names))
        if not self.words or min(map(len, self.words)) < _SHORTEST:
            raise ValueError(f"{self!r}: no word follows from it by which a file could be found")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.names))})"

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if "." not in name)

    @property
    def functions(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if "." in name)


class Makes(Row):
    """A call that makes something which takes part in training."""

    def __init__(
        self, thing: Thing, *names: str, named: str = "", prepared_by: str = "", window: str = "",
        within: tuple[At, ...] = (), divides: Callable[[Given], bool] | None = None, accumulates: bool = False,
        model: At | None = None, classes: tuple[str, ...] = (), settings: Mapping[str, At] | None = None,
        words: tuple[str, ...] = (), precision: str = "",
    ) -> None:  # fmt: skip
        super().__init__(names, words)
        self.about = self.thing = thing
        #: what such an object is called where it comes from elsewhere, as a regular expression
        self.named = named
        #: a file with this word gets optimizers from elsewhere that were handed to the framework there
        self.prepared_by = prepared_by
        #: the argument that holds the number of micro-batches, and arguments in which it may be an entry
        self.window = window
        self.within = within
        #: whether it divides losses by that number, and whether it counts micro-batches if no number is seen
        self.divides = divides
        self.accumulates = accumulates
        #: the model that becomes an engine, and the classes of what a function makes
        self.model = model
        self.classes = classes
        #: of a plugin: which arguments hold which settings
        self.settings = settings or {}
        #: the argument that says in what it autocasts; with float16 it scales losses, until it clips or steps
        self.precision = precision


class Does(Row):
    """A method or function that makes an event; None: it leaves gradients alone."""

    def __init__(
        self, event: type[Event] | None, *names: str, on: Thing = Thing.OBJECT, loss: At = LOSS,
        undivided: str = "", given: str = "", kind: ClipKind = ClipKind.NORM, value: At | None = None,
        limit: At | None = None, algorithm: At | None = None, words: tuple[str, ...] = (), telling: bool = False,
        beside: tuple[str, ...] = (), looks: str = "",
    ) -> None:  # fmt: skip
        super().__init__(names, words, telling, beside, looks)
        self.about = self.event = event
        self.on = on
        #: of a backward: its loss, and an argument that keeps the framework from dividing it, unless it is True
        self.loss = loss
        self.undivided = undivided
        #: of a step: it is the framework's if it is handed something of this name
        self.given = given
        #: of a clip: what it limits; or its limits for values and for the norm, of which one is None; or the argument
        #: that says which of them is meant
        self.kind = kind
        self.value = value
        self.limit = limit
        self.algorithm = algorithm


class Opens(Row):
    """A context."""

    def __init__(
        self, context: Switch, *names: str, model: At = MODEL, enabled: At | None = None,
        loss: At = LOSS, told_by: str = "", words: tuple[str, ...] = (), telling: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(names, words, telling)
        self.about = self.context = context
        self.model = model
        self.enabled = enabled
        self.loss = loss
        #: the attribute that says that this micro-batch is the last of its window
        self.told_by = told_by


class Passes(Row):
    """A call that gives back what it is given: all of it, the first few, or one argument."""

    def __init__(
        self, *names: str, argument: At | None = None, first: int | None = None, prepares: bool = False,
        words: tuple[str, ...] = (), telling: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(names, words, telling)
        self.argument = argument
        self.first = first
        #: optimizers and schedulers are the framework's from here on
        self.prepares = prepares


class Calls(Row):
    """A method of the user's class that the framework calls for a loss: it runs the backward itself."""

    def __init__(
        self, method: str, *, of: tuple[str, ...], alike: tuple[str, ...] = (), by_hand: str = "",
        divides: Callable[[OwnClass], bool] | None = None, divisor: str = "", words: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        super().__init__((method,), words)
        self.method = method
        #: the classes that it is derived from, and the methods by which one is known whose base is not
        self.of = of
        self.alike = alike
        #: a file with this word runs its backwards itself
        self.by_hand = by_hand
        #: whether the framework divides the loss, and what the name of a number of micro-batches has in it, beside what
        #: the framework is given
        self.divides = divides
        self.divisor = divisor
        if divides is not None:
            self.about = Setting.DIVISION


@dataclass(frozen=True, slots=True)
class Handed:
    """Who takes a dict of settings, and in which arguments."""

    calls: tuple[str, ...]
    arguments: tuple[At, ...]


class Configures(Row):
    """An argument, or a key of a dict, that holds a setting."""

    def __init__(
        self, setting: Setting, argument: str, *calls: str, algorithm: str = "",
        default: ClipKind | None = ClipKind.NORM, enumeration: str = "", passed_on: bool = False, replaced_by: str = "",
        handed: tuple[Handed, ...] = (),
        beside: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        super().__init__((argument, algorithm) if algorithm else (argument,))
        self.about = self.setting = setting
        self.argument = argument
        #: what is called with it
        self.calls = calls
        #: of a limit: the argument that says whether values or the norm are limited, what holds without it, and the
        #: class of its constants; `passed_on`: whoever takes that argument hands it on to the framework
        self.algorithm = algorithm
        self.default = default
        self.enumeration = enumeration
        self.passed_on = passed_on
        #: a method of the file that makes of the limit what it likes
        self.replaced_by = replaced_by
        #: of a key: who is handed the dict, and keys that no other dict has
        self.handed = handed
        self.beside = beside


@functools.lru_cache(4096)
def fits(name: str, dotted: str) -> bool:
    """Whether a dotted name of the file is what a row calls so."""
    return _pattern(name).fullmatch(dotted) is not None


@functools.cache
def _pattern(name: str) -> re.Pattern[str]:
    text = re.escape(name).replace(r"\*\*\.", r"(?:\w+\.)*").replace(r"\*\*", r"[\w.]*").replace(r"\*", r"\w*")
    return re.compile(text)


def last_word(name: str) -> str:
    """The longest part of a name that is always there, from the back; Python calls `__call__` without its name."""
    if name.startswith("__"):
        return ""
    for part in reversed(name.split(".")):
        longest = max(part.split("*"), key=len)
        if len(longest) >= _SHORTEST:
            return longest
    return ""
