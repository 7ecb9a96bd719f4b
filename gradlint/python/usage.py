"""What a file does with its names, each in the scope that it belongs to: a local of one function is none of another."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlint.knowledge import naming
from gradlint.knowledge.torch_api import PARAMETER_METHODS
from gradlint.python import syntax as s
from gradlint.python.scope import Scope, Scopes

if TYPE_CHECKING:
    from gradlint.python.module import Module


class Use(enum.IntEnum):  # whose members have the quick hashes of numbers
    """What is done with it. The first three are known by the last part of a name, the others by the whole text."""

    #: the right of a modulo, or called like a number of micro-batches
    MODULUS = 0
    #: the right of a modulo, or the bound of a range
    COUNTED_TO = 1
    #: assigned in a loop, or by it
    VARYING = 2
    #: its gradients are cleared
    ZEROED = 3
    #: it is asked for its parameters
    OWNER = 4
    #: it is updated, with nothing handed to it: a scaler, perhaps
    UPDATED = 5


#: in the place of the name that a text begins with: it is known by its name wherever it is
_ANYWHERE = "*"


class Usage:
    """The uses of one file. An attribute may be anybody's: it goes by its name in the whole file."""

    def __init__(self, program: Module) -> None:
        self._program = program
        #: with each text the name that it begins with ("": none that a scope binds), and where that stands
        self._noted: dict[tuple[Use, str], list[tuple[str, int]]] = {}
        self._texts: dict[Use, set[str]] = {use: set() for use in Use}
        #: the same names with those whose they are, as far as somebody has asked
        self._owners: dict[tuple[Use, str], set[tuple[str, Scope | None]]] = {}
        self._known: dict[tuple[Use, str, Scope], bool | None] = {}
        #: all names and attributes that stand in expressions
        self.named: set[str] = set()

    def seen_from(self, program: Module) -> Usage:
        """The same in another analysis, which may note more."""
        seen = Usage(program)
        seen._noted = {key: [*noted] for key, noted in self._noted.items()}
        seen._texts = {use: set(texts) for use, texts in self._texts.items()}
        seen.named = set(self.named)
        return seen

    def texts(self, use: Use) -> set[str]:
        """All that it is done with, in whichever scope."""
        return self._texts[use]

    def of(self, use: Use, key: str, scope: Scope) -> bool | None:
        """Whether it is done with what has this name in a scope; None if the scope does not say whose name it is."""
        asked = use, key, scope
        if asked not in self._known:
            text, root = _split(use, key)
            owner = _owner(root, scope)
            self._known[asked] = None if owner is None else self._is_noted(use, text, root, owner)
        return self._known[asked]

    def anywhere(self, use: Use, key: str) -> bool:
        return _split(use, key)[0] in self._texts[use]

    def _is_noted(self, use: Use, text: str, root: str, owner: Scope) -> bool:
        owners = self._owners.get((use, text))
        if owners is None:
            of = self._program.once(Scopes).of
            noted = self._noted.get((use, text), ())
            owners = self._owners[use, text] = {(x, _owner(x, of(node))) for x, node in noted}
        return (_ANYWHERE, None) in owners or (root, owner) in owners

    # -- what is said in expressions and statements

    def note_names(self, names: set[str]) -> None:
        for name in names - self.named:
            self.named.add(name)
            if naming.MICRO.search(name):
                self._note(Use.MODULUS, name, _ANYWHERE, -1)

    def note_call(self, call: s.Call) -> None:
        func = call.func
        if isinstance(func, s.Attr):
            if func.name == "zero_grad" or func.name in PARAMETER_METHODS:
                use = Use.ZEROED if func.name == "zero_grad" else Use.OWNER
                self._note(use, s.render(func.base), _root(func.base), call.node)
            elif func.name == "update" and not call.args:
                self._note(Use.UPDATED, s.render(func.base), _root(func.base), call.node)
        elif isinstance(func, s.Name) and func.id == "range" and len(call.args) == 1:
            if isinstance(call.args[0], s.Name | s.Attr):
                self._count(Use.COUNTED_TO, call.args[0])

    def note_modulo(self, divisor: s.Expr) -> None:
        for part in named(divisor):
            self._count(Use.MODULUS, part)
            self._count(Use.COUNTED_TO, part)

    def note_change(self, target: s.Expr) -> None:
        """A target of an assignment in a loop, or of the loop itself."""
        match target:
            case s.Name() | s.Attr():
                self._count(Use.VARYING, target)
            case s.Sequence():
                for item in target.items:
                    self.note_change(item)
            case s.Star(value=inner) | s.Item(base=inner):
                self.note_change(inner)
            case _:
                pass

    def _count(self, use: Use, part: s.Expr) -> None:
        self._note(use, last_name(part), part.id if isinstance(part, s.Name) else "", part.node)

    def _note(self, use: Use, text: str, root: str, node: int) -> None:
        self._noted.setdefault((use, text), []).append((root, node))
        self._owners.pop((use, text), None)
        self._texts[use].add(text)


def _owner(root: str, scope: Scope) -> Scope | None:
    """Whose name it is that a text begins with; None if nobody says so, and for what belongs to an object (`self`)."""
    owner = scope.owner(root) if root else None
    if owner is None or (owner.cls is not None and owner.params and owner.params[0].name == root):
        return None
    return owner


@functools.lru_cache(maxsize=4096)
def _split(use: Use, key: str) -> tuple[str, str]:
    """The text by which something is known, and the name that it begins with, if a scope may bind that."""
    if use in (Use.ZEROED, Use.OWNER, Use.UPDATED):
        root = key.partition(".")[0].partition("[")[0]
        if "#" in root:  # an object's attribute: its class calls it self
            return f"self{key[len(root) :]}", ""
        return key, root if root.isidentifier() else ""
    if key.endswith('"]') and '["' in key:
        return key.rpartition('["')[2][:-2], ""  # `args["steps"]`
    return naming.last(key), key if key.isidentifier() else ""


def _root(expr: s.Expr) -> str:
    while isinstance(expr, s.Attr | s.Item):
        expr = expr.base
    return expr.id if isinstance(expr, s.Name) else ""


def named(expr: s.Expr) -> Iterator[s.Expr]:
    """The names in an expression, each as a whole: `self.args.n` of `self.args.n - 1`; what is called is left out."""
    match expr:
        case s.Name() | s.Attr():
            yield expr
        case s.Item():
            constant = isinstance(expr.index, s.Const) and isinstance(expr.index.value, str)
            yield from [expr] if constant else named(expr.base)
        case s.Call():
            for arg in (*expr.args, *expr.kwargs.values()):
                yield from named(arg)
            if isinstance(expr.func, s.Attr):
                yield from named(expr.func.base)
        case _:
            for part in s.parts(expr):
                yield from named(part)


def last_name(expr: s.Expr) -> str:
    """`n` of `n`, `self.args.n` and `args["n"]`."""
    match expr:
        case s.Name():
            return expr.id
        case s.Attr():
            return expr.name
        case s.Item(index=s.Const(value=str() as key)):
            return key
        case _:
            return ""
