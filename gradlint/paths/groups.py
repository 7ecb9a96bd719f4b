"""Generators that hand out micro-batches: parts of a batch, or groups of the batches of a loader."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from gradlint.knowledge import naming
from gradlint.python import syntax as s
from gradlint.python.binding import target_names

#: what cuts a tensor into parts
CUTS = frozenset({"chunk", "split", "tensor_split"})


class Parts(enum.IntEnum):
    """What a loop over something goes over."""

    UNKNOWN = 0
    #: the micro-batches of a window
    MICRO = 1
    #: windows: a loop over each of them goes over its micro-batches
    WINDOWS = 2


def handed_out(definition: s.Def, call: s.Call) -> Parts:
    """By what stands in the generator, and, where it puts batches aside, by what it is given."""
    yields = [*_yielded(definition.body)]
    loops = [x for x in s.walk_stmts(definition.body) if isinstance(x, s.For)]
    if any(_is_cut(value, loop) for loop in loops for value in yields):
        return Parts.MICRO
    kept = {value.id for value in map(_listed, yields) if isinstance(value, s.Name)}
    for loop in loops:
        sources = [loop.iterable, *call.args, *call.kwargs.values()]
        batches = any(naming.BATCHES.search(naming.last(s.render(source))) for source in sources)
        if batches and kept & {*_filled(loop)}:
            return Parts.WINDOWS
    return Parts.UNKNOWN


def cuts(name: str, dims: list[s.Expr | None]) -> bool:
    """`x.chunk(4)`, `torch.split(x, 8)`: the parts of a batch, unless they lie along another dimension."""
    first = all(dim is None or (isinstance(dim, s.Const) and dim.value == 0) for dim in dims)
    return name in CUTS and first


def _yielded(body: list[s.Stmt]) -> Iterator[s.Expr]:
    for stmt in s.walk_stmts(body):
        for expr in s.expressions(stmt):
            for part in s.walk_expr(expr):
                if isinstance(part, s.Yield) and part.value is not None:
                    yield part.value


def _listed(value: s.Expr) -> s.Expr:
    """`group` of `list(group)`."""
    named = isinstance(value, s.Call) and s.render(value.func) in ("list", "tuple") and len(value.args) == 1
    return value.args[0] if named and isinstance(value, s.Call) else value


def _is_cut(value: s.Expr, loop: s.For) -> bool:
    """`x[i : i + size]` in `for i in range(0, len(x), size)`."""
    counter, steps = {*target_names(loop.target)}, loop.iterable
    if not isinstance(steps, s.Call) or s.render(steps.func) != "range" or len(steps.args) != 3:
        return False
    for part in s.walk_expr(value):
        if isinstance(part, s.Item) and isinstance(part.index, s.Other) and part.index.children:
            low = part.index.children[0]
            if isinstance(low, s.Name) and low.id in counter:
                return True
    return False


def _filled(loop: s.For) -> Iterator[str]:
    """The lists that a loop puts what it goes over into."""
    items = {*target_names(loop.target)}
    for stmt in s.walk_stmts(loop.body):
        call = stmt.value if isinstance(stmt, s.ExprStmt) else None
        if isinstance(call, s.Call) and isinstance(call.func, s.Attr) and call.func.name == "append":
            base, given = call.func.base, call.args[0] if call.args else None
            if isinstance(base, s.Name) and isinstance(given, s.Name) and given.id in items:
                yield base.id
