"""Finds the delicate operations of a file that lead to a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.facts.numerics.facts import Object, Routine
from gradlint.facts.numerics.frames import Enough
from gradlint.facts.numerics.statements import Statements, gives_loss
from gradlint.knowledge import naming
from gradlint.knowledge import tensor_api as api
from gradlint.python import syntax as s
from gradlint.python.calls import Arguments
from gradlint.subjects import Kind

if TYPE_CHECKING:
    from gradlint.facts.numerics.operations import Operation
    from gradlint.python.module import Program

_DELICATE = (
    api.LOGS | api.ROOTS | api.EXPS | api.CROSS_ENTROPY | api.NLL | api.BCE | {"log1p", "pow"}
)  # fmt: skip
#: without one of these nothing can be said, a criterion beside a probability set apart
_POINTED = api.LOGS | api.ROOTS | api.EXPS | {"log1p", "pow"}
_CRITERIA = api.CROSS_ENTROPY | api.NLL | api.BCE
_PROBABILITIES = api.SOFTMAXES | api.SIGMOIDS
_BACKWARD = frozenset({"backward", "manual_backward"})


def operations(program: Program, *, divisions: bool = False) -> list[Operation]:
    """The operations whose result becomes a part of a loss, as often as they were met with different operands.

    `divisions`: somebody asks for these, too.
    """
    if not divisions and not _has_delicate(program):
        return []
    follower = Statements(program)
    try:
        follower.run(program.body)
        for routine in _entries(program):
            if id(routine.node) not in follower.followed:
                follower.follow(routine, Arguments())
    except (Enough, RecursionError):
        pass  # what was seen until here counts
    reached = [operation for operation in follower.operations if operation.reached]
    # what is made of an exp() says more than the exp() alone
    return sorted(reached, key=lambda operation: operation.kind is Kind.EXP)


def _has_delicate(program: Program) -> bool:
    seen = program.all_words.seen
    if program.half_powers or seen & _POINTED:
        return True
    return bool(seen & _CRITERIA and seen & _PROBABILITIES)


def _entries(program: Program) -> list[Routine]:
    """Functions and methods with something delicate in them, in the order of the file."""
    found: list[Routine] = []
    _collect(program, program.body, None, found)
    return found


def _collect(program: Program, body: list[s.Stmt], owner: Object | None, found: list[Routine]) -> None:
    for stmt in body:
        if isinstance(stmt, s.Def):
            called = program.own_words(stmt.body).called
            if (
                gives_loss(stmt, owner)
                or called & (_DELICATE | _BACKWARD)
                or any(naming.CRITERION.search(name) or "loss" in name.lower() for name in called)
            ):
                found.append(Routine(stmt, owner))
        elif isinstance(stmt, s.Class):
            _collect(program, stmt.body, Object(stmt), found)
        else:
            for block in s.blocks(stmt):
                _collect(program, block, owner, found)
