"""What a sample shows beside sizes: who is trained by whom, units that are dead, modes, graphs that are kept."""

from __future__ import annotations

import torch
from torch import Tensor

from gradlint.runtime.layers import Graphs, Units, asleep, biases, readable
from gradlint.runtime.monitor.data import Health
from gradlint.runtime.monitor.measure import Parcel, norms, numbers_of
from gradlint.runtime.monitor.parameters import Roster

#: samples in a row in which a unit must have had no gradient: a batch that does not excite it is nothing
UNITS = 10

#: samples at which parameters that the optimizer does not hold are compared with what they were
LOOKS = 6

#: losses whose graphs are followed, and the steps after which one should be gone
FOLLOWED = 200
OLD = 10


class Checkup:
    """Looks at a model and its optimizer, sample by sample."""

    def __init__(self, roster: Roster, shard: bool) -> None:
        self._roster = roster
        self._shard = shard
        self._looks = 0
        self._former: tuple[list[str], list[float]] | None = None
        self._found: tuple[str, ...] = ()
        self._units = Units()
        self._graphs = Graphs(FOLLOWED)

    def tell(self, loss: Tensor, step: int) -> None:
        self._graphs.follow(loss, step)

    def look(self, step: int) -> Health:
        left_out = self._left_out()
        return Health(
            left_out,
            # Frameworks that train copies of the parameters write them back.
            bool(left_out) and self._foreign(),
            asleep(self._roster.model),
            () if self._shard else self._dying(),
            self._graphs.alive(step - OLD),
        )

    def _dying(self) -> tuple[tuple[str, float], ...]:
        """The layers with dead units, at every tenth sample; all of them is a dead layer, which is told by itself."""
        self._units.look(
            [
                (readable(name) or type(layer).__name__, bias.grad)
                for name, layer, bias in biases(self._roster.model)
                if id(bias) in self._roster.members and bias.grad is not None and type(bias.grad) is Tensor
            ]
        )
        if self._units.looks < UNITS:
            return ()
        shares = self._units.shares()
        self._units = Units()
        return tuple((name, share) for name, share in shares.items() if 0 < share < 1)

    def _foreign(self) -> bool:
        return not any(id(p) in self._roster.members for p in self._roster.model.parameters())

    @torch.no_grad()
    def _left_out(self) -> tuple[str, ...]:
        """Another optimizer, or the loop itself, may train them: only what does not move counts."""
        if self._shard or self._looks >= LOOKS:
            return self._found
        self._looks += 1
        others = [
            (readable(name), numbers_of(p))
            for name, p in self._roster.model.named_parameters()
            if id(p) not in self._roster.members and p.requires_grad and p.grad is not None and p.numel()
        ]
        if not others:
            self._former, self._found = None, ()
            return ()
        names = [name for name, _ in others]
        parcel = Parcel()
        for _, values in others:
            parcel.put(norms([values]))
        now = parcel.open()
        former, self._former = self._former, (names, now)
        if former is not None and former[0] == names:
            self._found = tuple(name for name, was, norm in zip(names, former[1], now, strict=True) if was == norm)
        return self._found
