"""All numbers of one sample: gathered where they are, brought to the host together, and put into true units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from gradlint.runtime.layers import Graphs, Units, asleep, biases, readable
from gradlint.runtime.monitor.data import Health, Layer, Total
from gradlint.runtime.monitor.measurement import (
    Measurement,
    Roster,
    Transfer,
    current_scale,
    gradient_norms,
    measure,
    norms,
    numbers_of,
    stored_scale,
    total,
    weight_norms,
)

#: samples in a row in which a unit must have had no gradient: a batch that does not excite it is nothing
UNITS = 10
#: samples at which parameters that the optimizer does not hold are compared with what they were
LOOKS = 6
#: losses whose graphs are followed, and the steps after which one should be gone
FOLLOWED = 200
OLD = 10


class HealthCheck:
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
            bool(left_out) and not any(id(p) in self._roster.members for p in self._roster.model.parameters()),
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
        transfer = Transfer()
        for _, values in others:
            transfer.put(norms([values]))
        now = transfer.open()
        former, self._former = self._former, (names, now)
        if former is not None and former[0] == names:
            self._found = tuple(name for name, was, norm in zip(names, former[1], now, strict=True) if was == norm)
        return self._found


# -- one sample --------------------------------------------------------------------------------------------------------


#: which clip: its function, its first parameter, how many parameters
Key = tuple[str, int, int]


@dataclass(slots=True)
class SeenClip:
    """A call of a clip; its numbers may still be on a device."""

    key: Key
    #: as the clip was given it: in scaled units if the gradients were scaled
    limit: float
    #: as the clip saw it; None where it does not tell (value clipping, shards)
    norm: Tensor | None
    #: what the gradients were multiplied by; None where they were true
    scale: Tensor | None
    #: the optimizer step that followed
    step: int = 0
    #: it clips all parameters of the optimizer
    whole: bool = False


@dataclass(frozen=True, slots=True)
class ArrivedClip:
    """A call of a clip, its numbers on the host."""

    key: Key
    step: int
    limit: float
    norm: float | None
    scale: float | None

    @property
    def true_limit(self) -> float:
        return self.limit / (self.scale or 1.0)

    @property
    def broken(self) -> bool:
        return self.norm is not None and not math.isfinite(self.norm)


@dataclass(slots=True)
class Turn:
    """One step of the optimizer, sampled or not: norms and losses that may still be on a device."""

    step: int
    #: whose norms these are; empty where it is the one of a clip of all parameters
    names: list[str]
    norms: list[Tensor]
    #: what the gradients were multiplied by as they were measured; None where they were true
    scale: Tensor | None
    losses: list[Tensor]
    #: the last clip of all parameters before the step
    clip: SeenClip | None = None

    @property
    def at_hand(self) -> bool:
        """All of it is on the host: nothing has to wait."""
        return all(tensor.device.type == "cpu" for tensor in (*self.norms, *self.losses))

    def total(self, norms: Sequence[float], scale: float, losses: Sequence[float], clip_scale: float) -> Total:
        return Total(
            self.step,
            total(norms) / scale if norms else None,
            sum(losses) / len(losses) if losses else None,
            _worst(self.names, norms),
            None if self.clip is None else self.clip.limit / clip_scale,
        )


def _worst(names: Sequence[str], norms: Sequence[float]) -> tuple[str, ...]:
    if len(names) != len(norms):
        return ()
    bad = tuple(name for name, norm in zip(names, norms, strict=True) if not math.isfinite(norm))
    return bad or tuple(name for _, name in sorted(zip(norms, names, strict=True), reverse=True)[:3])


@dataclass(slots=True)
class Since:
    """What waits for the next copy to the host: steps, clips, and whether fused optimizers skipped their steps."""

    turns: list[Turn] = field(default_factory=list)
    clips: list[SeenClip] = field(default_factory=list)
    found: list[tuple[int, Tensor]] = field(default_factory=list)


@dataclass(slots=True)
class Interval:
    """What was seen since the last step."""

    clips: list[SeenClip] = field(default_factory=list)
    #: names and norms of the gradients before the clip, as a turn has them
    norms: tuple[list[str], list[Tensor], Tensor | None] | None = None
    #: the gradients before the clip; only in one whose step is sampled
    before: Measurement | None = None
    transfer: Transfer = field(default_factory=Transfer)


class Waiting:
    """Puts what waits into a transfer, and reads it when that is open."""

    def __init__(self, since: Since, transfer: Transfer) -> None:
        self._steps = [step for step, _ in since.found]
        self._found = transfer.put(tensor for _, tensor in since.found)
        self._clips = [(clip, _put(clip.norm, transfer), _put(clip.scale, transfer)) for clip in since.clips]
        self._turns = [
            (
                turn,
                transfer.put(turn.norms),
                _put(turn.scale, transfer),
                transfer.put(turn.losses),
                _put(turn.clip.scale if turn.clip else None, transfer),
            )
            for turn in since.turns
        ]

    def skips(self, numbers: Sequence[float]) -> list[tuple[int, bool]]:
        """For each step of a fused optimizer, whether it was skipped."""
        return [(step, value != 0) for step, value in zip(self._steps, numbers[self._found], strict=True)]

    def clips(self, numbers: Sequence[float]) -> list[ArrivedClip]:
        return [
            ArrivedClip(clip.key, clip.step, clip.limit, _take(norm, numbers), _take(scale, numbers))
            for clip, norm, scale in self._clips
        ]

    def totals(self, numbers: Sequence[float]) -> list[tuple[Total, list[float]]]:
        """The steps, each with the losses that were told for it."""
        return [
            (
                turn.total(
                    numbers[norms], _take(scale, numbers) or 1.0, numbers[losses], _take(clip_scale, numbers) or 1.0
                ),
                list(numbers[losses]),
            )
            for turn, norms, scale, losses, clip_scale in self._turns
        ]


@dataclass(frozen=True, slots=True)
class Reading:
    """The numbers of one sample, on the host and in true units."""

    layers: tuple[Layer, ...]
    #: total norms before the clip, and as the step used them
    norm: float
    used: float
    #: the scaler's scale; 1 without one
    scale: float
    #: what the gradients were multiplied by at the step; 1 where they were true
    divisor: float
    #: since the last sample; the last of the steps is the sampled one, whose norm is in the layers
    totals: list[tuple[Total, list[float]]]
    clips: list[ArrivedClip]
    skips: list[tuple[int, bool]]


def read(roster: Roster, optimizer: Optimizer, scaler: Any, interval: Interval, since: Since) -> Reading:
    """Measures what was not measured before the clip, and copies all that there is to the host."""
    transfer = interval.transfer
    stored, current = stored_scale(scaler, optimizer), current_scale(scaler)
    clipped = interval.before is not None
    before = interval.before or measure(roster.entries, transfer, stored, roster.weights)
    after = transfer.put(gradient_norms(roster.entries)[1]) if clipped else None
    divisor, scale = _put(stored, transfer), _put(current, transfer)
    waiting = Waiting(since, transfer)

    numbers = transfer.open()
    layers = before.layers(numbers, roster.rates())
    if before.weights and not all(layer.finite for layer in layers):
        layers = _weighed(layers, roster)  # whether the weights hold it already is the first question
    roster.remember(layers)
    norm = total(layer.norm for layer in layers)
    factor = _take(divisor, numbers) or 1.0
    return Reading(
        layers,
        norm,
        total(numbers[after]) / factor if after is not None else norm,
        _take(scale, numbers) or 1.0,
        factor,
        waiting.totals(numbers),
        waiting.clips(numbers),
        waiting.skips(numbers),
    )


def _weighed(layers: Sequence[Layer], roster: Roster) -> tuple[Layer, ...]:
    """With the weights as they are now."""
    transfer = Transfer()
    at = {name: transfer.put(weight_norms([numbers_of(parameter.detach())])) for name, parameter in roster.entries}
    numbers = transfer.open()
    weights = {name: numbers[place][0] for name, place in at.items()}
    return tuple(
        replace(
            layer, weight=weights[layer.name], ratio=layer.norm / weights[layer.name] if weights[layer.name] else None
        )
        for layer in layers
    )


def host_tensor(norm: object) -> Tensor | None:
    """A norm that can be read without asking other ranks: no DTensor."""
    return norm.detach() if isinstance(norm, Tensor) and not hasattr(norm, "to_local") else None


def _put(tensor: Tensor | None, transfer: Transfer) -> slice | None:
    return None if tensor is None else transfer.put([tensor])


def _take(at: slice | None, numbers: Sequence[float]) -> float | None:
    return None if at is None else numbers[at][0]
