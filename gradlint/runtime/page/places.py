"""Where something happened, and to which optimizer: by the names that the user gave them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gradlint.model import Cell
from gradlint.runtime.page.text import shortened
from gradlint.runtime.recording import Happening, Met, Place, Recording
from gradlint.runtime.turns import Files

_SEPARATOR = re.compile(r"[\\/]+")
_LONGEST = 160


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
        if not _rooted(file):
            return "/".join(parts)
        return "/".join(parts if len(parts) <= 2 else ["…", *parts[-2:]])

    def text(self, place: Place) -> str:
        """`train.py:41`."""
        return self.at(place.file, place.line)

    def at(self, file: str, line: int) -> str:
        """`train.py:41`, `train.ipynb:cell 3:2`."""
        for cell in reversed(self._cells.get(self._known(file), ())):
            if cell.first_row <= line:
                return f"{self.name(file)}:cell {cell.number}:{line - cell.first_row + 1}"
        return f"{self.name(file)}:{line}"

    def source(self, file: str, line: int) -> str:
        """The statement that stands there, on one line; empty if the file is not known."""
        if (file, line) not in self._texts:
            self._texts[file, line] = shortened(self.files[self._known(file)].source(line), _LONGEST)
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


def _rooted(file: str) -> bool:
    return file.startswith(("/", "\\")) or file[1:2] == ":"


#: colours repeat behind these; letters do not
COLOURS = 5


@dataclass(frozen=True, slots=True)
class Player:
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


class Cast:
    """The optimizers of a run, in the order they were met."""

    def __init__(self, recording: Recording, places: Places) -> None:
        self._places = places
        known = {m.id: m for m in recording.of(Met) if m.role == "optimizer"}
        used = {o for h in recording.happenings if not isinstance(h, Met) for o in (*h.optimizers, _owner(h)) if o}
        ids = [i for i in known if i in used] + sorted(used - set(known) - _others(recording))
        self.players = {i: self._player(at, i, known.get(i)) for at, i in enumerate(ids)}

    @property
    def several(self) -> bool:
        return len(self.players) > 1

    def of(self, happening: Happening) -> list[Player]:
        """Whose gradients it is about: the owner's alone, where it has one."""
        ids = (_owner(happening),) if _owner(happening) in self.players else happening.optimizers
        return [self.players[i] for i in ids if i in self.players]

    def name(self, identity: str) -> str:
        return self.players[identity].name if identity in self.players else identity

    def _player(self, at: int, identity: str, met: Met | None) -> Player:
        letter = chr(ord("A") + at) if at < 26 else str(at + 1)
        kind = met.type if met is not None else ""
        return Player(identity, letter, self._bound_to(met) or kind or identity, kind, at % COLOURS)

    def _bound_to(self, met: Met | None) -> str:
        """`self.optimizer = AdamW(…)` is called `self.optimizer`."""
        if met is None or met.place is None:
            return ""
        name, equals, _ = self._places.source(met.place.file, met.place.line).partition("=")
        name = name.partition(":")[0].strip()
        return name if equals and name.replace(".", "").replace("_", "").isalnum() else ""


def _owner(happening: Happening) -> str:
    return str(getattr(happening, "owner", ""))


def _others(recording: Recording) -> set[str]:
    return {m.id for m in recording.of(Met) if m.role != "optimizer"}
