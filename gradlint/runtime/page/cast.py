"""Who plays in a run: its optimizers, with a letter and the name that the user gave them."""

from __future__ import annotations

from dataclasses import dataclass

from gradlint.runtime.page.places import Places
from gradlint.runtime.recording import Happening, Met, Recording

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
