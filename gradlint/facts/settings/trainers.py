"""Classes whose loss a framework divides: it calls a method of theirs, and runs the backward of what that returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlint.events import Backward, Framework
from gradlint.facts.settings import returned_loss
from gradlint.knowledge import frameworks as known
from gradlint.knowledge.rows import Calls, Configures, Setting, Thing, fits
from gradlint.python import syntax as s
from gradlint.python.classes import Classes
from gradlint.python.constants import Constants
from gradlint.python.written import last
from gradlint.subjects import DivisionSetting

if TYPE_CHECKING:
    from gradlint.python.module import Program


def second_divisions(program: Program) -> Iterator[DivisionSetting]:
    """In the methods that frameworks call for a loss."""
    rows = [(f, row) for f, row in known.rows(Calls) if row.divides is not None and row.method in program.functions]
    for cls in program.classes.values() if rows else ():
        for framework, row in rows:
            if not _by_hand(framework, row, program) and _descends(cls, row.of, program):
                yield from _divided(cls, framework, row, program)


def _by_hand(framework: Framework, row: Calls, program: Program) -> bool:
    """The file runs its backwards itself: nobody else divides."""
    backwards = {name for x in known.does(framework, Thing.SUBCLASS, Backward) for name in x.methods}
    return row.by_hand in program.all_words.seen or bool(backwards & program.all_words.called)


def _descends(cls: s.Class, bases: tuple[str, ...], program: Program) -> bool:
    return any(fits(name, base) for name in bases for base in program.once(Classes).foreign(cls))


def _divided(cls: s.Class, framework: Framework, row: Calls, program: Program) -> Iterator[DivisionSetting]:
    method = program.member(cls, row.method)
    if not isinstance(method, s.Def) or row.divides is None or not row.divides(_Own(cls, program)):
        return
    windows = _Windows(framework, program)
    for found in returned_loss.divisions(method):
        name = _number_name(found.divisor)
        if (row.divisor and row.divisor in name.lower()) or windows.mean(found.divisor):
            if not returned_loss.multiplies(method, name or s.render(found.divisor)):
                loss = program.site(found.loss, s.render(found.loss))
                yield DivisionSetting(loss, s.render(found.divisor), framework)


class _Own:
    """See `rows.OwnClass`."""

    def __init__(self, cls: s.Class, program: Program) -> None:
        self._cls = cls
        self._program = program

    def calls_super(self, method: str) -> bool | None:
        found = self._program.member(self._cls, method)
        return _calls_super(found) if isinstance(found, s.Def) else None

    def sets(self, attribute: str, value: object) -> bool:
        for stmt in s.walk_stmts(self._cls.body):
            if isinstance(stmt, s.Assign) and isinstance(stmt.value, s.Const) and stmt.value.value is value:
                if any(last(target) == attribute for target in stmt.targets):
                    return True
        return False

    def takes(self, method: str, parameter: str) -> bool:
        found = self._program.member(self._cls, method)
        return isinstance(found, s.Def) and any(p.star == "**" or p.name == parameter for p in found.params)


def _calls_super(method: s.Def) -> bool:
    return any(
        isinstance(part, s.Call) and isinstance(part.func, s.Attr) and s.render(part.func).startswith("super(")
        for stmt in s.walk_stmts(method.body)
        for expr in s.expressions(stmt)
        for part in s.walk_expr(expr)
    )


class _Windows:
    """The numbers of micro-batches that the trainers of this file are given, and what they are called."""

    def __init__(self, framework: Framework, program: Program) -> None:
        rows = (row for row in framework.rows if isinstance(row, Configures) and row.setting is Setting.WINDOW)
        #: with a trainer that is given another number, or none, there are two
        self._numbers: set[float] = set()
        self._names: set[str] = set()
        self._own: set[str] = set()
        for row in rows:
            self._own.add(f"trainer.{row.argument}")
            self._read(row, program)
        if len(self._numbers) == 1:
            self._numbers -= {1}

    def _read(self, row: Configures, program: Program) -> None:
        constants = program.once(Constants)
        for call, scope in constants.expressions():
            if not isinstance(call, s.Call) or not any(fits(name, program.dotted(call.func)) for name in row.calls):
                continue
            value, _, home = constants.argument(call, row.argument, scope)
            number = constants.number(value, home) if value is not None else 1
            self._numbers.add(number if number is not None else 0)
            if value is None or number == 1:
                continue
            self._names.add(row.argument)
            # `self.n` may be another number than `args.n`; one name of the module is one number
            if "accum" in _number_name(value).lower() or constants.is_global(value, home):
                self._names.add(_number_name(value))

    def mean(self, divisor: s.Expr) -> bool:
        """Whether this is such a number."""
        own = any(s.render(divisor).endswith(name) for name in self._own)
        same = isinstance(divisor, s.Const) and self._numbers == {divisor.value}
        return own or same or _number_name(divisor) in self._names


def _number_name(expr: s.Expr) -> str:
    """`n` of `self.n` and of `config["n"]`."""
    if isinstance(expr, s.Item) and isinstance(expr.index, s.Const):
        return str(expr.index.value)
    return last(expr)
