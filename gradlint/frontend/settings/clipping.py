"""Finds clipping that is configured, not called: arguments of trainers and plugins, keys of DeepSpeed's dicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlint.events import ClipKind
from gradlint.frontend import syntax as s
from gradlint.frontend.names.constants import Constants, Scope
from gradlint.frontend.names.written import called
from gradlint.knowledge import frameworks as known
from gradlint.subjects import ClipSetting

if TYPE_CHECKING:
    from gradlint.frontend.program import Program

_WORDS = frozenset({"gradient_clip_algorithm", known.DEEPSPEED_CLIP, *(a.limit for a in known.CLIP_ARGUMENTS)})


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
        for about in known.CLIP_ARGUMENTS:
            # whoever takes Lightning's algorithm hands it on to Lightning
            if about.made_by.match(dotted) or (about.algorithm and about.algorithm in call.kwargs):
                if dotted not in self._program.classes:
                    yield from self._argument(about, call, scope)

    def _argument(self, about: known.ClipArgument, call: s.Call, scope: Scope) -> Iterator[ClipSetting]:
        value, _, home = self.constants.argument(call, about.limit, scope)
        kind: ClipKind | None = ClipKind.NORM
        named: s.Expr | None = None
        if about.algorithm:
            named, absent, place = self.constants.argument(call, about.algorithm, scope)
            kind = self._algorithm(named, place) if named is not None else kind if absent else None
            if kind is ClipKind.NORM and known.LIGHTNING_CLIP_HOOK in self._program.functions:
                kind = None  # the file's own hook makes of the limit what it likes
        if value is not None:
            text = f"{called(call)}({about.limit}={s.render(value)})"
            yield from self._limit(text, value, home, kind, named, about.framework)
        elif named is not None:
            site = self._program.site(named, s.render(named))
            yield ClipSetting("", kind, None, algorithm=site, literal=isinstance(named, s.Const))

    def _algorithm(self, named: s.Expr, scope: Scope) -> ClipKind | None:
        """By the string, or by Lightning's enumeration; with None Lightning takes the norm."""
        if isinstance(named, s.Attr) and s.render(named.base).endswith("GradClipAlgorithmType"):
            return {"NORM": ClipKind.NORM, "VALUE": ClipKind.VALUE}.get(named.name)
        found, _ = self.constants.value(named, scope)
        if not isinstance(found, s.Const):
            return None
        if found.value is None:
            return ClipKind.NORM
        return {"norm": ClipKind.NORM, "value": ClipKind.VALUE}.get(str(found.value).lower())

    def _limit(
        self, text: str, value: s.Expr, scope: Scope, kind: ClipKind | None, named: s.Expr | None, framework: str
    ) -> Iterator[ClipSetting]:
        found, _ = self.constants.value(value, scope)
        limit = self.constants.number(value, scope)
        if isinstance(found, s.Unary) or (isinstance(found, s.Const) and (limit is None or limit <= 0)):
            return  # None, 0 and -1 switch it off; "auto" is a number from elsewhere
        yield ClipSetting(
            text, kind, self._program.site(value, s.render(value)), limit,
            self._program.site(found, "") if found is not None and found is not value else None,
            self._program.site(named, s.render(named)) if named is not None else None,
            isinstance(named, s.Const), framework,
        )  # fmt: skip

    # -- DeepSpeed's dicts

    def handed_over(self, call: s.Call, scope: Scope) -> Iterator[ClipSetting]:
        """`deepspeed.initialize(config=settings)`: the dict may stand anywhere in the file."""
        dotted = self._program.dotted(call.func)
        for taker, names, first in known.DEEPSPEED_TAKERS:
            if dotted and taker.search(dotted):
                given = [call.kwargs[name] for name in names if name in call.kwargs]
                given += call.args[:1] if first else []
                for config in given:
                    entries, _, home = self.constants.entries(config, scope)
                    yield from self._key(entries, home)

    def display(self, display: s.Dict, scope: Scope) -> Iterator[ClipSetting]:
        """A dict that can only be DeepSpeed's, and that nobody changes by name."""
        keys = {k.value for k, _ in display.pairs if isinstance(k, s.Const)}
        if known.DEEPSPEED_CLIP in keys and keys & known.DEEPSPEED_KEYS:
            if not self.constants.is_changed(display, known.DEEPSPEED_CLIP):
                entries, _, home = self.constants.entries(display, scope)
                yield from self._key(entries, home)

    def _key(self, entries: dict[str, s.Expr], scope: Scope) -> Iterator[ClipSetting]:
        value = entries.get(known.DEEPSPEED_CLIP)
        if value is not None:
            text = f'"{known.DEEPSPEED_CLIP}": {s.render(value)}'
            yield from self._limit(text, value, scope, ClipKind.NORM, None, "DeepSpeed")
