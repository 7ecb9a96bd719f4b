"""What rules are asked about beside events: calls, settings of frameworks, layers in a row, operations, the file."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from gradlint.events import PLAIN, ClipKind, Framework, Site
from gradlint.records import dataclass

if TYPE_CHECKING:
    from gradlint.facts.models import Models, Monitoring
    from gradlint.facts.numbers import Fact
    from gradlint.facts.token_means import TokenMeans
    from gradlint.knowledge.layers import Role

T = TypeVar("T")


# -- calls


@dataclass(frozen=True, slots=True)
class Argument:
    """What a call is given for one of its parameters."""

    site: Site
    #: the full name of what it names: "torch.float16"; "" where that is not known
    name: str = ""
    #: it is written out as a number, a string, True, False or None
    constant: bool = False
    #: that value
    value: object = None
    #: of `a if flag else b`: the full names of both, as far as they are known
    either: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One call in the file, wherever it stands."""

    site: Site
    #: the full name of what is called, through the imports: "torch.nn.utils.clip_grad_norm_"; "" where not known
    name: str
    #: the last part of that name; of what is not known, of the name as it is written
    last: str
    #: the place of what is called, without its arguments
    function: Site
    arguments: tuple[Argument, ...] = ()
    keywords: Mapping[str, Argument] = {}
    #: `*args` or `**kwargs` hide some arguments
    starred: bool = False
    #: the tests of the `if`s round it, and what the `try`s round it catch, in the user's words
    conditions: tuple[str, ...] = ()
    caught: tuple[str, ...] = ()
    #: the number of the function that it stands in; None at the top of the file
    home: int | None = None
    #: what its result is assigned to, as it is written; "" if it is not assigned, or to several
    bound_to: str = ""
    #: it opens a `with` block in which something is computed and kept
    opens: bool = False

    @property
    def text(self) -> str:
        return self.site.text

    @property
    def short(self) -> str:
        """The user's own text, cut to a length that fits a message."""
        return cut(self.site.text)

    def argument(self, position: int, name: str = "") -> Argument | None:
        """What is given at this position, or by this name."""
        if name in self.keywords:
            return self.keywords[name]
        return self.arguments[position] if 0 <= position < len(self.arguments) else None

    def constant(self, position: int, name: str = "", default: object = None) -> object:
        """The value of an argument that is written out; `default` if it is left out, None if it is computed."""
        given = self.argument(position, name)
        if given is None:
            return None if self.starred else default
        return given.value if given.constant else None


# -- settings


@dataclass(frozen=True, slots=True)
class ClipSetting:
    """A limit that a framework was given."""

    #: what the user wrote: `Trainer(gradient_clip_val=0.5)`, `"gradient_clipping": 0.5`
    text: str
    #: None where it cannot be known
    kind: ClipKind | None
    #: where the limit is given, and the number, if the file settles it
    site: Site | None
    limit: float | None = None
    #: where the number stands, if that is elsewhere
    number: Site | None = None
    #: where the algorithm is given, and the argument that takes it
    algorithm: Site | None = None
    switch: str = ""
    #: the algorithm is written in its place, not behind a name
    literal: bool = False
    framework: Framework = PLAIN


@dataclass(frozen=True, slots=True)
class DivisionSetting:
    """A division by hand of a loss that a framework divides as well, by the window that it was given."""

    loss: Site
    #: in the user's words
    divisor: str
    #: who divides again
    framework: Framework


Setting = ClipSetting | DivisionSetting


# -- layers


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of a chain: where its name is written (`nn.Tanh`, `torch.tanh`), and where it is called (`self.act`).

    Inside of an `nn.Sequential` both are the same place.
    """

    role: Role
    made: int
    used: int
    #: "tanh" or "sigmoid"
    name: str = ""
    #: the files of both, "" for that which is linted
    made_in: str = ""
    used_in: str = ""

    @property
    def made_at(self) -> Site:
        return Site(self.made, "", self.made_in)

    @property
    def used_at(self) -> Site:
        return Site(self.used, "", self.used_in)


@dataclass(frozen=True, slots=True)
class Stack:
    """Saturating activations with nothing but linear and convolutional layers before, between and behind them."""

    hidden: tuple[Layer, ...]
    #: no activation of it is used for anything else, such as the output
    alone: bool
    #: the words of the other files that parts of it stand in
    seen: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a model, or a loss, is taken for what it is: in a few words, and the line that says so."""

    text: str
    site: Site
    said: str


# -- operations


class Kind(enum.Enum):
    """Which operation it is."""

    LOG = "log"
    LOG1P = "log1p"
    ROOT = "sqrt"
    EXP = "exp"
    DIVIDE = "division"
    CROSS_ENTROPY = "cross_entropy"
    NLL = "nll_loss"
    BCE = "binary_cross_entropy"

    __hash__ = object.__hash__


class Low(enum.IntEnum):
    """How far a value keeps from zero."""

    UNKNOWN = 0
    #: never below zero, but zero is possible
    ZERO = 1
    #: kept away from zero on some path, or in a way that was not followed: nothing is said about it
    GUARDED = 2
    POSITIVE = 3


class Prob(enum.Enum):
    """What kind of probability a value is."""

    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"
    ONE_MINUS_SIGMOID = "1 - sigmoid"
    #: a part of one, or made of one: gathered, summed, multiplied
    PIECE = "probability"
    LOG = "log-probability"


class Operation(Protocol):
    """A delicate operation whose result becomes a part of a loss, and what is known of its operand.

    The same place may be met several times, with other operands.
    """

    @property
    def kind(self) -> Kind:
        """Which operation it is."""

    @property
    def site(self) -> Site:
        """Its place, with its text."""

    @property
    def operand_site(self) -> Site:
        """The place of what is logged, rooted, divided by, handed to the loss."""

    @property
    def origin(self) -> Site | None:
        """The call that made the operand a probability, if it stands elsewhere."""

    @property
    def made_at(self) -> Site | None:
        """The call that made the operand a probability."""

    @property
    def text(self) -> str:
        """The operation in the user's words."""

    @property
    def operand_text(self) -> str:
        """The operand in the user's words."""

    @property
    def fact(self) -> Fact:
        """What is known of the operand: `grad`, `low`, `prob`, `zero` (why it can be zero, in a word), …"""

    @property
    def other(self) -> Fact | None:
        """What is known of what is divided."""

    @property
    def exposed(self) -> bool:
        """A gradient may flow through the operand, and nothing keeps it away from zero."""

    @property
    def unbounded(self) -> bool:
        """Of an exp(): nothing limits its operand, and nothing says that it is small by what it is."""

    @property
    def fused(self) -> str:
        """The one function of torch that does both steps, "" if there is none."""

    @property
    def ends_model(self) -> bool:
        """The operand is what a model's forward gives, and the last thing done there is a sigmoid."""

    @property
    def near(self) -> bool:
        """It stands in a function that gives a loss, or in the training code itself, not somewhere in a model."""

    @property
    def local(self) -> bool:
        """What made the operand a probability stands in the same function."""

    @property
    def criterion(self) -> Site | None:
        """Where a criterion that is not called as a function was made: `nn.BCELoss()`."""

    @property
    def sampled(self) -> bool:
        """The operand is the probability of an action that was drawn with it, as in a policy gradient."""

    @property
    def names(self) -> Sequence[str]:
        """The names in the operand."""

    @property
    def name(self) -> str:
        """The name of the operand: `pred`, also of `pred[mask]` and `1 - pred`; "" if it has none."""

    @property
    def plain_name(self) -> str:
        """The last part of the operand if it is nothing but a name: `logits` of `self.logits`."""

    @property
    def determinant(self) -> bool:
        """The operand is made of a determinant."""

    @property
    def softplus(self) -> bool:
        """The logarithm of 1 plus one exponential, not of a sum of them."""

    def shares_function(self, other: Operation) -> bool:
        """Whether another one stands in the same function."""

    @property
    def absolute(self) -> str:
        """`x.abs()` for the root of x squared, "" if the operand is not just that."""

    def shown(self, length: int = 56) -> str:
        """The operation in the user's words, cut to a length that fits a message."""

    def operand_shown(self, length: int = 56) -> str:
        """The same of the operand."""

    def function_shown(self, length: int = 56) -> str:
        """The same of what is called, without its arguments."""


# -- the file


class Words(Protocol):
    """What stands in a piece of code, and in the functions of the file that it calls."""

    #: names of what is called, as the modules that they come from have them
    called: set[str]
    #: names, keywords, and strings that may be names
    seen: set[str]


class File(Protocol):
    """The file that a rule looks at, the same for all rules; the engine sets it before any hook is called."""

    @property
    def words(self) -> Words:
        """All words of the file."""

    @property
    def imports(self) -> Mapping[str, str]:
        """Names of the file, and the full names of what they were imported as."""

    @property
    def defined(self) -> Collection[str]:
        """The names of its classes and functions."""

    @property
    def target_torch(self) -> tuple[int, int] | None:
        """The oldest torch that the code has to run with, as configured."""

    @property
    def is_test(self) -> bool:
        """It holds tests: nothing is trained there."""

    @property
    def settings(self) -> Sequence[Setting]:
        """What frameworks were given: limits of clips, sizes of windows."""

    @property
    def models(self) -> Models:
        """What the optimizers train, and how that is known."""

    @property
    def monitoring(self) -> Monitoring:
        """Whether it looks at its gradients, and which of its loops run for long."""

    @property
    def token_means(self) -> TokenMeans:
        """Which losses are means over the tokens of a padded batch."""

    @property
    def uncalled(self) -> Sequence[Site]:
        """Attributes that stand alone as statements, as if they were calls: `optimizer.step`."""

    def once(self, query: Callable[[File], T]) -> T:
        """What a function makes of this file; it is asked once, and what it gave is kept as long as the file is."""

    def calls(self, *names: str) -> Sequence[Call]:
        """The calls of these names (full ones, or last parts), or all, in the order of the file."""

    def mentions(self, name: str) -> Sequence[Site]:
        """Where something is named but not called: `isinstance`, an annotation, a base, a variable."""

    def assigns(self, name: str) -> bool:
        """Something of another module is replaced: `torch.utils.checkpoint.checkpoint = …`."""

    def reads(self, text: str) -> int:
        """How often a name or an attribute is read, as it is written."""

    def words_of(self, function: str) -> Sequence[Words]:
        """The words of each function of this name."""

    def trains_round(self, call: Call) -> bool:
        """Gradients are made and used in a function round this call, and it is not under no_grad there."""

    def made_by(self, site: Site) -> str:
        """The full name of what was called to make the thing that this is an attribute of, if it is assigned once."""

    def clears(self, site: Site) -> bool:
        """Somewhere in the file `zero_grad` is called on the thing that this is an attribute of."""

    def block_of(self, site: Site) -> int:
        """The number of the block of statements that an expression is a statement of; -1 if it is none."""

    def is_one(self, window: str) -> bool:
        """N of `% N` is a constant 1 wherever the file asks so."""


def cut(text: str, length: int = 48) -> str:
    """`clip_grad_norm_(…)` for a long call; else the beginning."""
    if len(text) <= length:
        return text
    head = text.partition("(")[0]
    return f"{head}(…)" if head and len(head) <= length else text[: length - 3] + "…"
