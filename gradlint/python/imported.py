"""Which imported function a call means where it stands: a parameter or a local of the same name is another thing."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.knowledge.torch_api import USUAL_NAMES
from gradlint.python import syntax as s
from gradlint.python.binding import bound_by, own_statements, target_names
from gradlint.records import dataclass

#: local name -> what the imports of this scope make of it; "" stands for anything that is no import
Bindings = dict[str, set[str]]


@dataclass(frozen=True, slots=True)
class Place:
    """A call, what it calls ("" if that is not known), and what stands round it, from the outside in."""

    call: s.Call
    dotted: str
    #: the statement whose expression it is a part of
    stmt: s.Stmt
    round: tuple[s.Stmt, ...]
    scopes: tuple[Bindings, ...]

    @property
    def function(self) -> s.Def | None:
        return next((x for x in reversed(self.round) if isinstance(x, s.Def)), None)


def calls(body: list[s.Stmt]) -> Iterator[Place]:
    """Every call of a file, in the order of its statements."""
    yield from _calls(body, (), (_bindings(body),))


def dotted(expr: s.Expr, scopes: tuple[Bindings, ...]) -> str:
    """`cp.checkpoint` -> `torch.utils.checkpoint.checkpoint`; "" if its first name may be something else."""
    match expr:
        case s.Attr():
            base = dotted(expr.base, scopes)
            return f"{base}.{expr.name}" if base else ""
        case s.Name():
            for scope in reversed(scopes):
                known = scope.get(expr.id)
                if known:
                    return min(known) if len(known) == 1 else ""
            return USUAL_NAMES.get(expr.id, "")
        case _:
            return ""


def _calls(body: list[s.Stmt], around: tuple[s.Stmt, ...], scopes: tuple[Bindings, ...]) -> Iterator[Place]:
    for stmt in body:
        for expr in s.expressions(stmt):
            for part in s.walk_expr(expr):
                if isinstance(part, s.Call):
                    yield Place(part, dotted(part.func, scopes), stmt, around, scopes)
        inner = scopes
        if isinstance(stmt, s.Def):
            inner = (*scopes, _bindings(stmt.body, stmt.params))
        for block in s.blocks(stmt):
            yield from _calls(block, (*around, stmt), inner)


def _bindings(body: list[s.Stmt], params: list[s.Param] | None = None) -> Bindings:
    """What a scope binds; what a class body binds is not seen by its methods, and is left out."""
    found: Bindings = {param.name: {""} for param in params or ()}
    for stmt in own_statements(body):
        if isinstance(stmt, s.Import):
            for local, meant in stmt.bindings.items():
                found.setdefault(local, set()).add(meant)
        for bound in bound_by(stmt):
            # `except ImportError: checkpoint = None` takes nothing from the name where it is called
            if not (isinstance(bound.source, s.Const) and bound.source.value is None):
                for name in target_names(bound.target):
                    found.setdefault(name, set()).add("")
    return found
