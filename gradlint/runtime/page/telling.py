"""Happenings in words: one line for what it was, then where, then the gradients in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gradlint.runtime.page.cast import Cast
from gradlint.runtime.page.places import Places
from gradlint.runtime.page.words import counted, number, numbers, shortened
from gradlint.runtime.recording import (
    BackwardRan,
    Clipped,
    Edited,
    Forwarded,
    Gradient,
    Happening,
    LoaderTurned,
    Raised,
    Scheduled,
    Stepped,
    Synced,
    Unscaled,
    Updated,
    Warned,
    Zeroed,
)

_ZEROED = {
    "optimizer": "gradients cleared by the optimizer",
    "module": "gradients cleared by the module",
    "assignment": "gradients cleared by assignment",
    "in-place": "gradients set to zero in place",
}
_EDITS = {"divide": "divided", "scale": "multiplied", "reduce": "reduced over the ranks", "noise": "given noise"}
#: warnings and messages of exceptions can be very long
_LONGEST = 300


class Teller:
    """Tells what happened in one run."""

    def __init__(self, places: Places, cast: Cast) -> None:
        self._places = places
        self._cast = cast

    def lines(self, happenings: Sequence[Happening]) -> list[str]:
        """What a mark stands for: one happening, or several that are alike."""
        first = happenings[0]
        times = f" × {len(happenings)}" if len(happenings) > 1 else ""
        lines = [f"{self.what(first)}{times}"]
        if first.place is not None:
            where = f" in {first.place.function}()" if _named(first.place.function) else ""
            lines.append(f"{self._places.text(first.place)}{where}")
            if source := self._places.source(first.place.file, first.place.line):
                lines.append(source)
        return [*lines, *self._norms(happenings)]

    def what(self, happening: Happening) -> str:
        players = self._cast.of(happening)
        whose = f" · {', '.join(p.name for p in players)}" if self._cast.several and players else ""
        return f"{_what(happening)}{whose}"

    def _norms(self, happenings: Sequence[Happening]) -> Iterable[str]:
        for identity in dict.fromkeys(g.optimizer for h in happenings for g in h.gradients):
            whose = f" of {self._cast.name(identity)}" if self._cast.several else ""
            if before := [g for h in happenings if (g := h.before_of(identity)) is not None]:
                yield f"norm{whose} before: {_norm(before)}"
            if after := [g for h in happenings if (g := h.gradient_of(identity)) is not None]:
                yield f"norm{whose}{' after' if before else ''}: {_norm(after)}"


def _norm(gradients: Sequence[Gradient]) -> str:
    last = gradients[-1]
    if not last.present and last.total and last.norm == 0:
        return "no gradients"
    text = f"{numbers(g.norm for g in gradients)} ({last.label})"
    return text if last.scale == 1.0 else f"{text} = {numbers(g.true for g in gradients)} in true units"


def _what(happening: Happening) -> str:
    match happening:
        case Zeroed():
            return _ZEROED.get(happening.by, "gradients cleared")
        case Forwarded():
            return _forward(happening)
        case BackwardRan():
            return _backward(happening)
        case Unscaled():
            return f"unscale_: gradients divided by {number(happening.scale)}"
        case Edited():
            factor = f" by {number(happening.factor)}" if happening.factor is not None else ""
            return f"gradients {_EDITS.get(happening.how, 'edited')}{factor}"
        case Clipped():
            return _clip(happening)
        case Synced():
            size = f" of {counted(happening.elements, 'number')}" if happening.elements else ""
            return f"{happening.how}{size}"
        case Stepped():
            return _step(happening)
        case _:
            return _around(happening)


def _around(happening: Happening) -> str:
    match happening:
        case Updated() if happening.scale == happening.new_scale:
            return f"scaler.update: scale stays {number(happening.scale)}"
        case Updated():
            return f"scaler.update: scale {number(happening.scale)} → {number(happening.new_scale)}"
        case Scheduled():
            rates = f": learning rate {numbers(happening.rates)} → {numbers(happening.new_rates)}"
            return f"scheduler step{rates if happening.new_rates else ''}"
        case LoaderTurned():
            return "the loader is exhausted" if happening.over else "the loader begins an epoch"
        case Warned():
            return shortened(f"{happening.category}: {happening.message}", _LONGEST)
        case Raised():
            return shortened(f"{happening.type}: {happening.message}", _LONGEST)
        case _:
            return "gradients read" if happening.KIND == "read" else happening.KIND


def _forward(forward: Forwarded) -> str:
    sync = {None: "", True: ", will synchronise", False: ", without synchronisation"}[forward.sync]
    autocast = f", autocast {forward.autocast}" if forward.autocast else ""
    return f"forward of {forward.type or 'the model'}{sync}{autocast}"


def _backward(ran: BackwardRan) -> str:
    parts = ["backward"]
    if ran.loss is not None:
        parts.append(f"loss {number(ran.loss)}")
    if ran.factor is not None and ran.factor != 1.0:
        parts.append(f"multiplied by {number(ran.factor)}")
    if ran.managed_division != 1.0:
        parts.append(f"{ran.manager or 'the framework'} divides by {number(ran.managed_division)}")
    if ran.scale != 1.0:
        parts.append(f"scale {number(ran.scale)}")
    if ran.backward_sync is not None or ran.syncs:
        parts.append(f"{counted(ran.syncs, 'exchange')} between ranks")
    return ", ".join(parts)


def _clip(clip: Clipped) -> str:
    limit = f" to {number(clip.limit)}" if clip.limit is not None else ""
    parts = [f"{clip.function or 'clip'}{limit}"]
    if clip.exhausted:
        parts.append("handed an exhausted iterator")
    if clip.returned is not None:
        parts.append(f"returned {number(clip.returned)}")
    if clip.active is not None:
        parts.append("changed the gradients" if clip.active else "changed nothing")
    if clip.missed:
        parts.append(f"{counted(clip.missed, 'gradient')} left out")
    return ", ".join(parts)


def _step(step: Stepped) -> str:
    parts = [f"step {step.number}{', skipped by the scaler' if step.skipped else ''}"]
    if step.rates:
        parts.append(f"learning rate {numbers(step.rates)}")
    if step.moved is not None:
        parts.append(f"weights moved by {number(step.moved)}")
    return ", ".join(parts)


def _named(function: str) -> bool:
    return bool(function) and not function.startswith("<")
