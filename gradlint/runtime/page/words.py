"""Happenings in words, with the places and optimizers as the user knows them; and the numbers of one iteration."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gradlint.model import Cell, Position, counted, place_in
from gradlint.runtime.page.chart import COLOURS
from gradlint.runtime.page.render import number, numbers, shortened
from gradlint.runtime.recording import (
    BackwardRan,
    Clipped,
    Edited,
    Forwarded,
    Gradient,
    Happening,
    LoaderTurned,
    Met,
    Raised,
    Recording,
    Scheduled,
    Stepped,
    Synced,
    Unscaled,
    Updated,
    Warned,
    Zeroed,
)
from gradlint.runtime.turns import Files

_SEPARATOR = re.compile(r"[\\/]+")
_LONGEST_LINE = 160


class Places:
    """The files of one run, seen from the folder of its script."""

    def __init__(
        self, sources: Mapping[str, str], script: str, cells: Mapping[str, tuple[Cell, ...]] | None = None
    ) -> None:
        self._sources = sources
        self._cells = cells or {}
        self.files = Files(sources)
        self._names: dict[str, str] = {}
        self._texts: dict[tuple[str, int], str] = {}
        self._folder = _parts(self._known(script))[:-1]

    def name(self, file: str) -> str:
        """`src/train.py` within the script's folder; elsewhere the file and the folder it is in."""
        file = self._known(file)
        parts = _parts(file)
        if self._folder and parts[: len(self._folder)] == self._folder and len(parts) > len(self._folder):
            return "/".join(parts[len(self._folder) :])
        if not file.startswith(("/", "\\")) and file[1:2] != ":":
            return "/".join(parts)
        return "/".join(parts if len(parts) <= 2 else ["…", *parts[-2:]])

    def at(self, file: str, line: int) -> str:
        """`train.py:41`, `train.ipynb:cell 3:2`."""
        place = place_in(self._cells.get(self._known(file), ()), Position(line, 1))
        return f"{self.name(file)}:{'' if place.cell is None else f'cell {place.cell}:'}{place.row}"

    def source(self, file: str, line: int) -> str:
        """The statement that stands there, on one line; empty if the file is not known."""
        if (file, line) not in self._texts:
            self._texts[file, line] = shortened(self.files[self._known(file)].source(line), _LONGEST_LINE)
        return self._texts[file, line]

    def _known(self, file: str) -> str:
        """The same file under the name it ran under: a finding may say `train.py`, the run `/home/me/train.py`."""
        if file in self._sources:
            return file
        if file not in self._names:
            wanted = _parts(file)
            alike = [name for name in self._sources if _ends_alike(_parts(name), wanted)]
            self._names[file] = alike[0] if len(alike) == 1 else file
        return self._names[file]


def _ends_alike(one: list[str], other: list[str]) -> bool:
    length = min(len(one), len(other))
    return length > 0 and one[-length:] == other[-length:]


def _parts(file: str) -> list[str]:
    return [part for part in _SEPARATOR.split(file) if part not in ("", ".")]


# -- optimizers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer."""

    id: str
    letter: str
    #: the variable, or the class
    name: str
    type: str
    colour: int

    @property
    def text(self) -> str:
        """`optimizer_d (Adam)`."""
        return self.name if self.name == self.type or not self.type else f"{self.name} ({self.type})"


class Optimizers:
    """The optimizers of a run, in the order they were met."""

    def __init__(self, recording: Recording, places: Places) -> None:
        self._places = places
        known = {m.id: m for m in recording.of(Met) if m.role == "optimizer"}
        used = {o for h in recording.happenings if not isinstance(h, Met) for o in (*h.optimizers, _owner(h)) if o}
        others = {m.id for m in recording.of(Met) if m.role != "optimizer"}
        ids = [i for i in known if i in used] + sorted(used - set(known) - others)
        self.by_id = {i: self._optimizer(at, i, known.get(i)) for at, i in enumerate(ids)}

    @property
    def several(self) -> bool:
        return len(self.by_id) > 1

    def of(self, happening: Happening) -> list[Optimizer]:
        """Whose gradients it is about: the owner's alone, where it has one."""
        ids = (_owner(happening),) if _owner(happening) in self.by_id else happening.optimizers
        return [self.by_id[i] for i in ids if i in self.by_id]

    def name(self, identity: str) -> str:
        return self.by_id[identity].name if identity in self.by_id else identity

    def _optimizer(self, at: int, identity: str, met: Met | None) -> Optimizer:
        letter = chr(ord("A") + at) if at < 26 else str(at + 1)
        kind = met.type if met is not None else ""
        # colours repeat, letters do not
        name = self._places.files.bound_at(met.place) if met is not None else ""
        return Optimizer(identity, letter, name or kind or identity, kind, at % COLOURS)


def _owner(happening: Happening) -> str:
    return str(getattr(happening, "owner", ""))


# -- happenings in words -----------------------------------------------------------------------------------------------


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

    def __init__(self, places: Places, optimizers: Optimizers) -> None:
        self._places = places
        self._optimizers = optimizers

    def lines(self, happenings: Sequence[Happening]) -> list[str]:
        """What a mark stands for: one happening, or several that are alike."""
        first = happenings[0]
        times = f" × {len(happenings)}" if len(happenings) > 1 else ""
        lines = [f"{self.what(first)}{times}"]
        if first.place is not None:
            function = first.place.function
            where = f" in {function}()" if function and not function.startswith("<") else ""
            lines.append(f"{self._places.at(first.place.file, first.place.line)}{where}")
            if source := self._places.source(first.place.file, first.place.line):
                lines.append(source)
        return [*lines, *self._norms(happenings)]

    def what(self, happening: Happening) -> str:
        whom = self._optimizers.of(happening)
        whose = f" · {', '.join(o.name for o in whom)}" if self._optimizers.several and whom else ""
        return f"{_what(happening)}{whose}"

    def _norms(self, happenings: Sequence[Happening]) -> Iterable[str]:
        for identity in dict.fromkeys(g.optimizer for h in happenings for g in h.gradients):
            whose = f" of {self._optimizers.name(identity)}" if self._optimizers.several else ""
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


# -- numbers of an iteration -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tally:
    """One number, or a few; `what` says which."""

    what: str
    text: str
    value: float
    #: it is clearly another one than that of the other run
    differs: bool = False


def tallies(happenings: Sequence[Happening], optimizers: Optimizers) -> list[Tally]:
    found: list[Tally] = []
    for optimizer in optimizers.by_id.values():
        mine = [h for h in happenings if optimizer.id in (*h.optimizers, getattr(h, "owner", ""))]
        whose = f" · {optimizer.letter}" if optimizers.several else ""
        found += _norms(mine, optimizer.id, whose)
        if any(isinstance(h, Stepped) for h in mine):
            found += _counts(mine, whose)
    found += _scales(happenings)
    found += _one("exchanges between ranks", sum(isinstance(h, Synced) for h in happenings), 0)
    return found


def compared(one: Sequence[Tally], other: Sequence[Tally]) -> list[Tally]:
    """With those set off that the other run has otherwise."""
    theirs = {t.what: t.value for t in other}
    return [Tally(t.what, t.text, t.value, _differ(t.value, theirs.get(t.what))) for t in one]


def _norms(mine: Sequence[Happening], identity: str, whose: str) -> list[Tally]:
    found = []
    clips = [h for h in mine if isinstance(h, Clipped) and h.how == "norm" and h.limit is not None]
    if clips and (gradient := clips[-1].before_of(identity)) is not None:
        found.append(_tally(f"norm before the clip{whose}", gradient.true))
    steps = [h for h in mine if isinstance(h, Stepped) and h.owner == identity]
    at_step = [step.used.true for step in steps if step.used is not None]
    if at_step:
        found.append(Tally(f"norm at the step{whose}", numbers(at_step), at_step[-1]))
    if clips and clips[-1].limit is not None:
        found.append(_tally(f"max_norm{whose}", clips[-1].limit))
    return found


def _counts(mine: Sequence[Happening], whose: str) -> list[Tally]:
    """Only what is not the usual one per step."""
    steps = sum(isinstance(h, Stepped) for h in mine)
    skipped = sum(isinstance(h, Stepped) and h.skipped for h in mine)
    return [
        *_one(f"backwards{whose}", sum(isinstance(h, BackwardRan) for h in mine), 1),
        *_one(f"clips{whose}", sum(isinstance(h, Clipped) for h in mine), 1, 0),
        *_one(f"times cleared{whose}", sum(isinstance(h, Zeroed) for h in mine), 1),
        *_one(f"scheduler steps{whose}", sum(isinstance(h, Scheduled) for h in mine), 1, 0),
        *_one(f"steps{whose}", steps, 1),
        *_one(f"skipped steps{whose}", skipped, 0),
    ]


def _scales(happenings: Sequence[Happening]) -> list[Tally]:
    scales = [h.scale for h in happenings if isinstance(h, BackwardRan) and h.scaler]
    return [Tally("scale", numbers(scales), scales[-1])] if scales else []


def _one(what: str, count: int, *usual: int) -> list[Tally]:
    return [] if count in usual else [_tally(what, count)]


def _tally(what: str, value: float) -> Tally:
    return Tally(what, number(value), value)


def _differ(one: float, other: float | None) -> bool:
    if other is None:
        return True
    return not math.isclose(one, other, rel_tol=0.05) and not (math.isnan(one) and math.isnan(other))
