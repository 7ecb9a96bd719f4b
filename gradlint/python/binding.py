"""Names as they are written, and what the statements of a function bind to them, whoever asks."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator

from gradlint.knowledge import naming
from gradlint.python import syntax as s
from gradlint.records import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """A target, and what it is made of: its value, or a loop's or context's; None of a definition or a parameter."""

    target: s.Expr
    source: s.Expr | None


def own_statements(body: list[s.Stmt]) -> Iterator[s.Stmt]:
    """Those of a function, without those of the functions and classes inside it."""
    for stmt in body:
        yield stmt
        if not isinstance(stmt, s.Def | s.Class):
            for block in s.blocks(stmt):
                yield from own_statements(block)


def bound_by(stmt: s.Stmt, inside: Iterable[s.Expr] | None = None) -> Iterator[Bound]:
    """What a statement binds, but for imports and inner blocks; `inside`: what binds names in its expressions, if that
    is known.

    Names of lambdas and comprehensions live in scopes of their own; here they count for the whole function.
    """
    if inside is None:
        inside = (part for expr in s.expressions(stmt) for part in s.walk_expr(expr) if type(part) in BINDING)
    for part in inside:
        yield from _bound_inside(part)
    match stmt:
        case s.Assign():
            yield from (Bound(target, stmt.value) for target in stmt.targets)
        case s.AugAssign():
            yield Bound(stmt.target, stmt.value)
        case s.For():
            yield Bound(stmt.target, stmt.iterable)
        case s.With():
            yield from (Bound(alias, item) for item, alias in stmt.items if alias is not None)
        case s.Def() | s.Class():
            yield Bound(s.Name(stmt.node, stmt.name), None)
        case _:
            return


#: statements that bind names, beside imports
BINDERS: frozenset[type[s.Node]] = frozenset({s.Assign, s.AugAssign, s.For, s.With, s.Def, s.Class})
#: expressions that do
BINDING: frozenset[type[s.Node]] = frozenset({s.Walrus, s.Comprehension, s.Lambda})


def _bound_inside(part: s.Expr) -> Iterator[Bound]:
    match part:
        case s.Walrus():
            yield Bound(part.target, part.value)
        case s.Comprehension():
            yield Bound(part.target, part.iterable)
        case s.Lambda():
            yield from (Bound(s.Name(part.node, param.name), None) for param in part.params)
        case _:
            return


def target_names(target: s.Expr) -> Iterator[str]:
    """The plain names among the targets: `a` and `b` of `a, (*b, c.d) = …`."""
    match target:
        case s.Name():
            yield target.id
        case s.Sequence() | s.Star():
            for part in s.parts(target):
                yield from target_names(part)
        case _:
            return


def last(expr: s.Expr | None) -> str:
    """`steps` of `self.args.steps`; "" if it is no name."""
    match expr:
        case s.Name():
            return expr.id
        case s.Attr():
            return expr.name
        case _:
            return ""


def called(call: s.Call) -> str:
    """`relu` of `F.relu(x)` and of `x.relu()`."""
    return last(call.func)


def hands_self_on(call: s.Call) -> bool:
    """`callback.before_batch(self)`: who is called may do anything with what the object has.

    Not a built-in function, not what makes an object or saves and logs one, and not the method of a base.
    """
    for given in (*call.args, *call.kwargs.values()):
        if type(given) is s.Name and given.id == "self":
            break
    else:
        return False
    name = called(call)
    if isinstance(call.func, s.Name) and hasattr(builtins, name):
        return False
    harmless = naming.HARMLESS.search(name) and "callback" not in name
    return not (name[:1].isupper() or name.startswith("__") or harmless)


def identifiers(expr: s.Expr) -> Iterator[str]:
    """All of them: `self`, `args` and `steps` of `self.args.steps`."""
    return (last(part) for part in s.walk_expr(expr) if isinstance(part, s.Name | s.Attr))
