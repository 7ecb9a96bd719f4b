"""The operations on the way to a loss that a rule may ask about, and the files in which there can be any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.facts.functions import CRITERIA
from gradlint.facts.joined import run
from gradlint.facts.tensors import POINTED, PROBABILITIES, Tensors
from gradlint.python import syntax as s
from gradlint.python.calls import Arguments
from gradlint.python.classes import Classes
from gradlint.python.values import Enough
from gradlint.subjects import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gradlint.facts.operations import Operation
    from gradlint.python.module import Module

_TORCH = {"F", "nn"}


def operations(program: Module, *, divisions: bool = False) -> list[Operation]:
    """The operations whose result becomes a part of a loss, as often as they were met with different operands.

    `divisions`: somebody asks for these, too.
    """
    torch = _speaks_of_torch(program)
    if not (divisions and torch) and not _has_delicate(program):
        return []
    tensors = Tensors(program)
    core = tensors.core
    try:
        run(core, program.body)
        for function in tensors.entries(program.body, None):
            if id(function.node) not in core.followed:
                core.enter(function, function.node, Arguments())
        for function in tensors.inherited():
            core.enter(function, function.node, Arguments())
    except (Enough, RecursionError):
        pass  # what was seen until here counts
    finally:
        core.let_go()
    reached = [o for o in tensors.losses.operations if o.reached and tensors.may_tell(o)]
    if not torch and not any(_is_of_a_tensor(operation) for operation in reached):
        return []
    # what is made of an exp() says more than the exp() alone
    return sorted(reached, key=lambda operation: operation.kind is Kind.EXP)


def _speaks_of_torch(program: Module) -> bool:
    """Arrays of other libraries are divided, and raised to a half, as well."""
    words = program.all_words
    if "backward" in words.called or not words.seen.isdisjoint(_TORCH):
        return True
    return any("torch" in word for word in (*program.imports.values(), *words.seen))


def _is_of_a_tensor(operation: Operation) -> bool:
    """`x.log()`: arrays have no such methods."""
    match operation.node:
        case s.Call(func=s.Attr(name="log" | "sqrt" | "exp"), args=[]):
            return True
        case _:
            return False


def _has_delicate(program: Module) -> bool:
    seen = program.all_words.seen
    if program.half_powers or seen & POINTED:
        return True
    if not seen & CRITERIA.keys() and not (_inherits(program) and _imports(program, CRITERIA)):
        return False
    return bool(seen & PROBABILITIES) or _imports(program, PROBABILITIES)


def _inherits(program: Module) -> bool:
    """A class has a base in another file."""
    classes = program.once(Classes)
    return program.project is not None and any(
        program.owner(base.node) is not program for cls in program.classes.values() for base in classes.lineage(cls)
    )


def _imports(program: Module, words: Iterable[str]) -> bool:
    """What it may come by in other files of the project has one of these words."""
    texts = program.project.texts() if program.project is not None else ()
    return any(word.encode() in text for text in texts for word in words)
