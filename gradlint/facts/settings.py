"""What frameworks are told in place of a call: limits of clips, and windows by which they divide a loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlint.events import Backward, ClipKind, Framework
from gradlint.knowledge import frameworks as known
from gradlint.knowledge.rows import Calls, Configures, Handed, Setting, Thing, fits
from gradlint.python import syntax as s
from gradlint.python.binding import called, last, own_statements
from gradlint.python.classes import Classes
from gradlint.python.constants import Constants
from gradlint.python.scope import Scope, Scopes
from gradlint.records import dataclass
from gradlint.subjects import ClipSetting, DivisionSetting

if TYPE_CHECKING:
    from gradlint.python.module import Module

_LIMITS = [(framework, row) for framework, row in known.rows(Configures) if row.setting is Setting.LIMIT]
_WORDS = frozenset(word for _, row in _LIMITS for word in (row.argument, row.algorithm) if word)
#: methods that leave the size of a loss to what went in
_THROUGH = frozenset({"mean", "sum", "float", "to", "squeeze", "contiguous"})


# -- limits


def clip_settings(program: Module) -> list[ClipSetting]:
    """Every limit that a framework of this file is given; those that are off are left out."""
    return program.once(_all_settings)


def _all_settings(program: Module) -> list[ClipSetting]:
    return list(_settings(program))


def _settings(program: Module) -> Iterator[ClipSetting]:
    if not _WORDS & program.all_words.seen:
        return
    reader = _Reader(program)
    for expr, scope in reader.constants.expressions():
        if isinstance(expr, s.Call):
            yield from reader.arguments(expr, scope)
            yield from reader.handed_over(expr, scope)
        elif isinstance(expr, s.Dict):
            yield from reader.display(expr, scope)


class _Reader:
    def __init__(self, program: Module) -> None:
        self._program = program
        self.constants = program.once(Constants)

    def arguments(self, call: s.Call, scope: Scope) -> Iterator[ClipSetting]:
        """`Trainer(gradient_clip_val=0.5)`."""
        dotted = self._program.dotted(call.func)
        if called(call) in ("", "clip_gradients"):
            return  # a call in the training loop is an event, not a setting
        for framework, row in _LIMITS:
            passed_on = row.passed_on and row.algorithm in call.kwargs
            if passed_on or any(fits(name, dotted) for name in row.calls):
                if dotted not in self._program.classes:
                    yield from self._argument(framework, row, call, scope)

    def _argument(self, framework: Framework, row: Configures, call: s.Call, scope: Scope) -> Iterator[ClipSetting]:
        value, _, home = self.constants.argument(call, row.argument, scope)
        kind = row.default
        named: s.Expr | None = None
        if row.algorithm:
            named, absent, place = self.constants.argument(call, row.algorithm, scope)
            kind = self._algorithm(row, named, place) if named is not None else kind if absent else None
            if kind is ClipKind.NORM and row.replaced_by in self._program.functions:
                kind = None  # the file's own hook makes of the limit what it likes
        if value is not None:
            text = f"{called(call)}({row.argument}={s.render(value)})"
            yield from self._limit(framework, row, text, value, home, kind, named)
        elif named is not None:
            site = self._program.site(named, s.render(named))
            yield ClipSetting("", kind, None, algorithm=site, switch=row.algorithm, literal=isinstance(named, s.Const))

    def _algorithm(self, row: Configures, named: s.Expr, scope: Scope) -> ClipKind | None:
        """By the string, or by a constant of the framework's; None stands for what holds without it."""
        if row.enumeration and isinstance(named, s.Attr) and s.render(named.base).endswith(row.enumeration):
            return {"NORM": ClipKind.NORM, "VALUE": ClipKind.VALUE}.get(named.name)
        found, _ = self.constants.value(named, scope)
        if not isinstance(found, s.Const):
            return None
        if found.value is None:
            return row.default
        return {"norm": ClipKind.NORM, "value": ClipKind.VALUE}.get(str(found.value).lower())

    def _limit(
        self,
        framework: Framework,
        row: Configures,
        text: str,
        value: s.Expr,
        scope: Scope,
        kind: ClipKind | None,
        named: s.Expr | None,
    ) -> Iterator[ClipSetting]:
        found, _ = self.constants.value(value, scope)
        limit = self.constants.number(value, scope)
        if isinstance(found, s.Unary) or (isinstance(found, s.Const) and (limit is None or limit <= 0)):
            return  # None, 0 and -1 switch it off; "auto" is a number from elsewhere
        yield ClipSetting(
            text, kind, self._program.site(value, s.render(value)), limit,
            self._program.site(found, "") if found is not None and found is not value else None,
            self._program.site(named, s.render(named)) if named is not None else None,
            row.algorithm, isinstance(named, s.Const), framework,
        )  # fmt: skip

    # -- dicts of settings

    def handed_over(self, call: s.Call, scope: Scope) -> Iterator[ClipSetting]:
        """`deepspeed.initialize(config=settings)`: the dict may stand anywhere in the file."""
        dotted = self._program.dotted(call.func)
        for framework, row in _LIMITS:
            for handed in row.handed:
                if dotted and any(fits(name, dotted) for name in handed.calls):
                    for config in _given(call, handed):
                        entries, _, home = self.constants.entries(config, scope)
                        yield from self._key(framework, row, entries, home)

    def display(self, display: s.Dict, scope: Scope) -> Iterator[ClipSetting]:
        """A dict that can only be a framework's, and that nobody changes by name."""
        keys = {k.value for k, _ in display.pairs if isinstance(k, s.Const)}
        for framework, row in _LIMITS:
            if row.argument in keys and keys & row.beside and not self.constants.is_changed(display, row.argument):
                entries, _, home = self.constants.entries(display, scope)
                yield from self._key(framework, row, entries, home)

    def _key(
        self, framework: Framework, row: Configures, entries: dict[str, s.Expr], scope: Scope
    ) -> Iterator[ClipSetting]:
        value = entries.get(row.argument)
        if value is not None:
            text = f'"{row.argument}": {s.render(value)}'
            yield from self._limit(framework, row, text, value, scope, row.default, None)


def _given(call: s.Call, handed: Handed) -> Iterator[s.Expr]:
    for where in handed.arguments:
        yield from (call.kwargs[name] for name in where.names if name in call.kwargs)
        if 0 <= where.position < len(call.args):
            yield call.args[where.position]


# -- losses that a framework divides: it calls a method for them, and runs the backward


def second_divisions(program: Module) -> Iterator[DivisionSetting]:
    """In the methods that frameworks call for a loss."""
    rows = [(f, row) for f, row in known.rows(Calls) if row.divides is not None and row.method in program.functions]
    for cls in program.classes.values() if rows else ():
        for framework, row in rows:
            if not _by_hand(framework, row, program) and _descends(cls, row.of, program):
                yield from _divided(cls, framework, row, program)


def _by_hand(framework: Framework, row: Calls, program: Module) -> bool:
    """The file runs its backwards itself: nobody else divides."""
    backwards = {name for x in known.does(framework, Thing.SUBCLASS, Backward) for name in x.methods}
    return row.by_hand in program.all_words.seen or bool(backwards & program.all_words.called)


def _descends(cls: s.Class, bases: tuple[str, ...], program: Module) -> bool:
    return any(fits(name, base) for name in bases for base in program.once(Classes).foreign(cls))


def _divided(cls: s.Class, framework: Framework, row: Calls, program: Module) -> Iterator[DivisionSetting]:
    method = program.once(Classes).own_method(cls, row.method)
    if method is None or row.divides is None or not row.divides(_Own(cls, program)):
        return
    windows = _Windows(framework, program)
    for found in divisions(method):
        name = _number_name(found.divisor)
        if (row.divisor and row.divisor in name.lower()) or windows.mean(found.divisor):
            if not multiplies(method, name or s.render(found.divisor)):
                loss = program.site(found.loss, s.render(found.loss))
                yield DivisionSetting(loss, s.render(found.divisor), framework)


class _Own:
    """See `rows.OwnClass`."""

    def __init__(self, cls: s.Class, program: Module) -> None:
        self._cls = cls
        self._program = program

    def calls_super(self, method: str) -> bool | None:
        found = self._program.once(Classes).own_method(self._cls, method)
        return _calls_super(found) if found is not None else None

    def sets(self, attribute: str, value: object) -> bool:
        for stmt in s.walk_stmts(self._cls.body):
            if isinstance(stmt, s.Assign) and isinstance(stmt.value, s.Const) and stmt.value.value is value:
                if any(last(target) == attribute for target in stmt.targets):
                    return True
        return False

    def takes(self, method: str, parameter: str) -> bool:
        found = self._program.once(Classes).own_method(self._cls, method)
        return found is not None and any(p.star == "**" or p.name == parameter for p in found.params)


def _calls_super(method: s.Def) -> bool:
    return any(
        isinstance(part, s.Call) and isinstance(part.func, s.Attr) and s.render(part.func).startswith("super(")
        for stmt in s.walk_stmts(method.body)
        for expr in s.expressions(stmt)
        for part in s.walk_expr(expr)
    )


class _Windows:
    """The numbers of micro-batches that the trainers of this file are given, and what they are called."""

    def __init__(self, framework: Framework, program: Module) -> None:
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

    def _read(self, row: Configures, program: Module) -> None:
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


@dataclass(frozen=True, slots=True)
class Division:
    """`loss / n` or `loss /= n`."""

    loss: s.Expr
    divisor: s.Expr


def divisions(method: s.Def) -> Iterator[Division]:
    """The divisions that the returned loss has gone through; those of logged numbers are left out."""
    own = list(own_statements(method.body))
    follow = _Follower(own)
    for stmt in own:
        if isinstance(stmt, s.Return) and stmt.value is not None:
            yield from follow.loss(stmt.value)


def multiplies(method: s.Def, name: str) -> bool:
    """Somewhere a factor of this name undoes, or may undo, a division."""
    for stmt in s.walk_stmts(method.body):
        if isinstance(stmt, s.AugAssign) and stmt.op == "*" and name in s.render(stmt.value):
            return True
        for expr in s.expressions(stmt):
            for part in s.walk_expr(expr):
                if isinstance(part, s.Bin) and part.op == "*" and name in s.render(part):
                    return True
    return False


class _Follower:
    """Names of one function, each followed once."""

    def __init__(self, statements: list[s.Stmt]) -> None:
        self._statements = statements
        self._seen: set[str] = set()

    def loss(self, expr: s.Expr) -> Iterator[Division]:
        match expr:
            case s.Name():
                yield from self._name(expr.id)
            case s.IfExp():
                yield from self.loss(expr.then)
                yield from self.loss(expr.other)
            case s.Sequence() if expr.kind is s.Display.TUPLE and expr.items:
                yield from self.loss(expr.items[0])  # `return loss, outputs`
            case s.Dict():
                for key, value in expr.pairs:
                    if isinstance(key, s.Const) and key.value == "loss":
                        yield from self.loss(value)
            case s.Bin() if expr.op == "/":
                yield Division(expr.left, expr.right)
                yield from self.loss(expr.left)
            case s.Bin() if expr.op == "*":
                yield from _as_division(expr.left, expr.right)
                yield from _as_division(expr.right, expr.left)
                yield from self.loss(expr.left)
                yield from self.loss(expr.right)
            case s.Call() if isinstance(expr.func, s.Attr) and expr.func.name in _THROUGH:
                yield from self.loss(expr.func.base)
            case _:
                return  # of a sum only some terms may be divided

    def _name(self, name: str) -> Iterator[Division]:
        if name in self._seen:
            return
        self._seen.add(name)
        for stmt in self._statements:
            match stmt:
                case s.Assign() if any(isinstance(t, s.Name) and t.id == name for t in stmt.targets):
                    yield from self.loss(stmt.value)
                case s.AugAssign() if isinstance(stmt.target, s.Name) and stmt.target.id == name:
                    if stmt.op == "/":
                        yield Division(stmt.target, stmt.value)
                case _:
                    pass


def _as_division(loss: s.Expr, factor: s.Expr) -> Iterator[Division]:
    """`loss * 0.25` is a division by 4."""
    value = factor.value if isinstance(factor, s.Const) else None
    if isinstance(value, float) and 0 < value < 1 and (1 / value).is_integer():
        yield Division(loss, s.Const(factor.node, int(1 / value)))


# -- windows of one micro-batch


def is_one(window: str, program: Module) -> bool:
    """N of `% N` is a constant 1 wherever the file asks so: written down, or a default that its callers leave alone.

    What a command line or a caller of another file may set is not settled.
    """
    constants = program.once(Constants)
    sizes = [
        (part.right, scope)
        for part, scope in constants.expressions()
        if isinstance(part, s.Bin) and part.op == "%" and s.render(part.right) == window
    ]
    return bool(sizes) and all(_one(size, scope, constants, program) for size, scope in sizes)


def _one(size: s.Expr, scope: Scope, constants: Constants, program: Module) -> bool:
    if constants.number(size, scope) == 1:
        return True
    imported = program.elsewhere(program.dotted(size))
    if imported is not None:
        return isinstance(imported.value, s.Const) and imported.value.value == 1
    scopes = program.once(Scopes)
    match size:
        case s.Name():
            return _default_of_one(size.id, scope, scopes)
        case s.Attr(base=s.Name() as base):
            handed = [(s.Attr(size.node, value, size.name), place) for value, place in scopes.handed(base.id, scope)]
            return bool(handed) and all(constants.number(each, place) == 1 for each, place in handed)
        case _:
            return False


def _default_of_one(name: str, scope: Scope, scopes: Scopes) -> bool:
    """A parameter with the default 1, which no call of the file gives another value; there must be a call."""
    owner = scope.owner(name)
    param = owner.param(name) if owner is not None else None
    default = param.default if param is not None else None
    if not isinstance(default, s.Const) or default.value != 1 or isinstance(default.value, bool):
        return False
    if owner is None or name in owner.names:
        return False
    calls = list(scopes.calls_of(owner))
    return bool(calls) and not any(c.starred for c, _ in calls) and not any(scopes.handed(name, scope))
