"""Classes whose loss a trainer divides by itself: Lightning modules and subclasses of the Hugging Face trainer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlint.frontend import syntax as s
from gradlint.frontend.names.constants import Constants
from gradlint.frontend.names.lineage import lineage
from gradlint.frontend.names.written import last
from gradlint.frontend.settings import returned_loss
from gradlint.knowledge import frameworks as known
from gradlint.knowledge.pattern import Pattern
from gradlint.subjects import DivisionSetting

if TYPE_CHECKING:
    from gradlint.frontend.program import Program


def second_divisions(program: Program) -> Iterator[DivisionSetting]:
    """In `compute_loss` of a Hugging Face trainer and in `training_step` of a Lightning module."""
    seen = program.all_words.seen
    hf = "compute_loss" in program.functions
    lightning = "training_step" in program.functions and known.LIGHTNING_STEPS in seen
    if not hf and not lightning:
        return
    for cls in program.classes.values():
        if hf and _descends(cls, known.HF_TRAINER, program):
            yield from _hugging_face(cls, program)
        if lightning and _descends(cls, known.LIGHTNING_MODULE, program):
            yield from _lightning(cls, program)


def _setting(found: returned_loss.Division, trainer: str, program: Program) -> DivisionSetting:
    return DivisionSetting(program.site(found.loss, s.render(found.loss)), s.render(found.divisor), trainer)


def _descends(cls: s.Class, wanted: Pattern, program: Program) -> bool:
    return any(wanted.search(program.dotted(base)) for one in lineage(cls, program) for base in one.bases)


# -- Hugging Face


def _hugging_face(cls: s.Class, program: Program) -> Iterator[DivisionSetting]:
    method = program.member(cls, "compute_loss")
    if isinstance(method, s.Def) and _trainer_divides(cls, method, program):
        for found in returned_loss.divisions(method):
            name = _number_name(found.divisor)
            if "gradient_accumulation" in name and not returned_loss.multiplies(method, name):
                yield _setting(found, "the Trainer", program)


def _trainer_divides(cls: s.Class, method: s.Def, program: Program) -> bool:
    """Since transformers 4.46 the trainer leaves it to a model that takes the number of items, as most do.

    A method that cannot be handed that number is written for the trainers before, which always divide.
    """
    step = program.member(cls, "training_step")
    if isinstance(step, s.Def) and not _calls_super(step):
        return False  # its backward is its own
    if _sets_false(cls, known.HF_LOSS_KWARGS):
        return True
    return not any(p.star == "**" or p.name == known.HF_ITEMS for p in method.params)


def _calls_super(method: s.Def) -> bool:
    return any(
        isinstance(part, s.Call) and isinstance(part.func, s.Attr) and s.render(part.func).startswith("super(")
        for stmt in s.walk_stmts(method.body)
        for expr in s.expressions(stmt)
        for part in s.walk_expr(expr)
    )


def _sets_false(cls: s.Class, attribute: str) -> bool:
    """`self.attribute = False` anywhere in the class, or in its body."""
    for stmt in s.walk_stmts(cls.body):
        if isinstance(stmt, s.Assign) and isinstance(stmt.value, s.Const) and stmt.value.value is False:
            if any(last(target) == attribute for target in stmt.targets):
                return True
    return False


# -- Lightning


def _lightning(cls: s.Class, program: Program) -> Iterator[DivisionSetting]:
    """Automatic optimisation only: by hand, nobody else divides."""
    words = program.all_words
    if "automatic_optimization" in words.seen or "manual_backward" in words.called:
        return
    method = program.member(cls, "training_step")
    if not isinstance(method, s.Def):
        return
    names, numbers = _window_names(program), _window_numbers(program)
    for found in returned_loss.divisions(method):
        name = _number_name(found.divisor)
        own = s.render(found.divisor).endswith(f"trainer.{known.LIGHTNING_STEPS}")
        same = isinstance(found.divisor, s.Const) and numbers == {found.divisor.value}
        if (own or same or name in names) and not returned_loss.multiplies(method, name or s.render(found.divisor)):
            yield _setting(found, "Lightning", program)


def _window_numbers(program: Program) -> set[float]:
    """The numbers that the trainers of this file are given; with a trainer that is given another, or none, two."""
    numbers: set[float] = set()
    constants = program.once(Constants)
    for call, scope in constants.expressions():
        if isinstance(call, s.Call) and known.LIGHTNING_TRAINER.match(program.dotted(call.func)):
            value, _, home = constants.argument(call, known.LIGHTNING_STEPS, scope)
            number = constants.number(value, home) if value is not None else 1
            numbers.add(number if number is not None else 0)
    return numbers - {1} if len(numbers) == 1 else numbers


def _window_names(program: Program) -> set[str]:
    """What the number is called that a trainer of this file is given; nothing where it is one."""
    names: set[str] = set()
    constants = program.once(Constants)
    for call, scope in constants.expressions():
        if isinstance(call, s.Call) and known.LIGHTNING_TRAINER.match(program.dotted(call.func)):
            value, _, home = constants.argument(call, known.LIGHTNING_STEPS, scope)
            if value is None or constants.number(value, home) == 1:
                continue
            names.add(known.LIGHTNING_STEPS)
            # `self.n` may be another number than `args.n`; one name of the module is one number
            if "accum" in _number_name(value).lower() or constants.is_global(value, home):
                names.add(_number_name(value))
    return names


def _number_name(expr: s.Expr) -> str:
    """`n` of `self.n` and of `config["n"]`."""
    if isinstance(expr, s.Item) and isinstance(expr.index, s.Const):
        return str(expr.index.value)
    return last(expr)
