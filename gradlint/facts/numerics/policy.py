"""Whether a logarithm is that of a policy gradient: of the probability of an action that was drawn with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.knowledge import tensor_api as api
from gradlint.python import syntax as s
from gradlint.python.binding import own_statements, target_names
from gradlint.python.written import called, identifiers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradlint.facts.numerics.operations import Operation
    from gradlint.python.module import Program

#: functions that draw an action with given probabilities
_DRAWS = frozenset({"multinomial", "choice", "choices"})
#: calls that pick entries; the index comes behind the dimension
_PICKS = frozenset({"gather", "index_select", "take_along_dim", "take", "batched_index_select"})
#: names are looked up so many times: `pi_a`, `pi.gather(1, a).squeeze()`, `a.long()`
_DEEPEST = 3


def sampled_action(operation: Operation, program: Program) -> bool:
    """The operand is the probability of an action that was drawn from this very distribution, as far as can be seen.

    Drawing keeps it above 0. Actions that are replayed, or were drawn before the weights changed (PPO), are others.
    """
    body = operation.function.body if operation.function is not None else program.body
    statements = list(own_statements(body))
    given = _given(statements)
    index = {name for expr in _indices(operation.operand, given) for name in _names(expr, given)}
    drawn = {n for n, values in given.items() if any(_draws(part) for v in values for part in s.walk_expr(v))}
    if index & drawn:
        return True
    said = {name for stmt in statements for expr in s.expressions(stmt) for name in identifiers(expr)}
    if operation.function is not None:
        said |= {param.name for param in operation.function.params}
    if any(api.REPLAY.search(name) for name in said):
        return False
    if any(api.ACTION.search(name) for name in index):
        return any(api.RETURN.search(name) for name in said)
    # REINFORCE: the probabilities themselves were kept, and are weighed with what followed
    kept = isinstance(operation.operand, s.Name | s.Attr | s.Item) and not index
    return kept and any(api.RETURN.search(name) for name in _weights(operation, statements))


def _given(statements: list[s.Stmt]) -> dict[str, list[s.Expr]]:
    """What each name of a function is set to."""
    found: dict[str, list[s.Expr]] = {}
    for stmt in statements:
        if isinstance(stmt, s.Assign):
            for target in stmt.targets:
                for name in target_names(target):
                    found.setdefault(name, []).append(stmt.value)
    return found


def _draws(part: s.Expr) -> bool:
    """`Categorical(pi).sample()`, `torch.multinomial(pi, 1)`; what a memory gives is no fresh draw."""
    if not isinstance(part, s.Call):
        return False
    if called(part) != "sample":
        return called(part) in _DRAWS
    return not part.args and not any(api.REPLAY.search(name) for name in identifiers(part.func))


def _indices(expr: s.Expr, given: dict[str, list[s.Expr]], depth: int = 0) -> Iterator[s.Expr]:
    """What picks entries on the way to an expression: `a` of `pi.gather(1, a)`, `pi[rows, a]`, `pi * one_hot(a)`."""
    for part in s.walk_expr(expr):
        match part:
            case s.Call() if called(part) in _PICKS:
                yield from (*part.args[1:], *part.kwargs.values())
            case s.Call() if called(part) == "one_hot":
                yield from part.args[:1]
            case s.Item():
                yield part.index
            case s.Name() if depth < _DEEPEST:
                for value in given.get(part.id, []):
                    yield from _indices(value, given, depth + 1)


def _names(expr: s.Expr, given: dict[str, list[s.Expr]], depth: int = 0) -> Iterator[str]:
    for name in identifiers(expr):
        yield name
        if depth < _DEEPEST:
            for value in given.get(name, []):
                yield from _names(value, given, depth + 1)


def _weights(operation: Operation, statements: list[s.Stmt]) -> Iterator[str]:
    """The names that the logarithm is multiplied by, in its own statement."""
    for stmt in statements:
        for expr in s.expressions(stmt):
            for part in s.walk_expr(expr):
                if isinstance(part, s.Bin) and part.op == "*":
                    for one, other in ((part.left, part.right), (part.right, part.left)):
                        if any(inner is operation.node for inner in s.walk_expr(one)):
                            yield from identifiers(other)
