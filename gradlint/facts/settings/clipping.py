"""Finds clipping that is configured, not called: arguments of trainers and plugins, keys of their dicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlint.events import ClipKind, Framework
from gradlint.knowledge import frameworks as known
from gradlint.knowledge.rows import Configures, Handed, Setting, fits
from gradlint.python import syntax as s
from gradlint.python.constants import Constants, Scope
from gradlint.python.written import called
from gradlint.subjects import ClipSetting

if TYPE_CHECKING:
    from gradlint.python.module import Program

_LIMITS = [(framework, row) for framework, row in known.rows(Configures) if row.setting is Setting.LIMIT]
_WORDS = frozenset(word for _, row in _LIMITS for word in (row.argument, row.algorithm) if word)


def clip_settings(program: Program) -> list[ClipSetting]:
    """Every limit that a framework of this file is given; those that are off are left out."""
    return program.once(_all_settings)


def _all_settings(program: Program) -> list[ClipSetting]:
    return list(_settings(program))


def _settings(program: Program) -> Iterator[ClipSetting]:
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
    def __init__(self, program: Program) -> None:
        self._program = program
        self.constants = program.once(Constants)

    def arguments(self, call: s.Call, scope: Scope) -> Iterator[ClipSetting]:
        """`Trainer(gradient_clip_val=0.5)`."""
        dotted = self._program.dotted(call.func)
        if not dotted or dotted.endswith("clip_gradients"):
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
