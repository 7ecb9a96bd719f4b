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
    Norms,
    Numbers,
    Roster,
    Transfer,
    current_scale,
    gradient_norms,
    measure,
    norms,
    stored_scale,
    total,
    weight_norms,
)
from gradlint.runtime.norms import numbers_of

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
        self._former: dict[str, float | None] | None = None
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
        transfer = Transfer()
        measured = {name: transfer.put(*norms([values])) for name, values in others}
        transfer.open()
        now = {name: numbers.first for name, numbers in measured.items()}
        former, self._former = self._former, now
        if former is not None and former.keys() == now.keys():
            self._found = tuple(name for name, norm in now.items() if norm == former[name])
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
    norms: Norms
    losses: list[Tensor]
    #: the last clip of all parameters before the step
    clip: SeenClip | None = None

    @property
    def at_hand(self) -> bool:
        """All of it is on the host: nothing has to wait."""
        return all(tensor.device.type == "cpu" for tensor in (*self.norms.tensors, *self.losses))


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
    #: of the gradients before the clip
    norms: Norms | None = None
    #: the gradients before the clip; only in one whose step is sampled
    before: Measurement | None = None
    transfer: Transfer = field(default_factory=Transfer)


class Waiting:
    """What waits, put into a transfer; its answers are there when that is open."""

    def __init__(self, since: Since, transfer: Transfer) -> None:
        self._found = [(step, transfer.put(found)) for step, found in since.found]
        self._clips = [(clip, transfer.put(clip.norm), transfer.put(clip.scale)) for clip in since.clips]
        self._turns = [
            (
                turn,
                transfer.put(*turn.norms.tensors),
                transfer.put(turn.norms.scale),
                transfer.put(*turn.losses),
                transfer.put(turn.clip.scale if turn.clip else None),
            )
            for turn in since.turns
        ]

    @property
    def skips(self) -> list[tuple[int, bool]]:
        """For each step of a fused optimizer, whether it was skipped."""
        return [(step, found.first != 0) for step, found in self._found]

    @property
    def clips(self) -> list[ArrivedClip]:
        return [
            ArrivedClip(clip.key, clip.step, clip.limit, norm.first, scale.first) for clip, norm, scale in self._clips
        ]

    @property
    def totals(self) -> list[tuple[Total, list[float]]]:
        """The steps, each with the losses that were told for it."""
        return [(_total(turn, *arrived), arrived[2].values) for turn, *arrived in self._turns]


def _total(turn: Turn, norms: Numbers, scale: Numbers, losses: Numbers, clip_scale: Numbers) -> Total:
    return Total(
        turn.step,
        total(norms.values) / (scale.first or 1.0) if norms.values else None,
        sum(losses.values) / len(losses.values) if losses.values else None,
        _worst(turn.norms.names, norms.values),
        None if turn.clip is None else turn.clip.limit / (clip_scale.first or 1.0),
    )


def _worst(names: Sequence[str], norms: Sequence[float]) -> tuple[str, ...]:
    if len(names) != len(norms):
        return ()
    bad = tuple(name for name, norm in zip(names, norms, strict=True) if not math.isfinite(norm))
    return bad or tuple(name for _, name in sorted(zip(norms, names, strict=True), reverse=True)[:3])


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
    after = transfer.put(*(gradient_norms(roster.entries).tensors if clipped else ()))
    divisor, scale = transfer.put(stored), transfer.put(current)
    waiting = Waiting(since, transfer)

    transfer.open()
    layers = before.layers(roster.rates())
    if before.weights and not all(layer.finite for layer in layers):
        layers = _weighed(layers, roster)  # whether the weights hold it already is the first question
    roster.remember(layers)
    norm = total(layer.norm for layer in layers)
    factor = divisor.first or 1.0
    return Reading(
        layers,
        norm,
        total(after.values) / factor if clipped else norm,
        scale.first or 1.0,
        factor,
        waiting.totals,
        waiting.clips,
        waiting.skips,
    )


def _weighed(layers: Sequence[Layer], roster: Roster) -> tuple[Layer, ...]:
    """With the weights as they are now."""
    transfer = Transfer()
    weights = {name: transfer.put(*weight_norms([numbers_of(p.detach())])) for name, p in roster.entries}
    transfer.open()
    return tuple(
        replace(layer, weight=weight, ratio=layer.norm / weight if weight else None)
        for layer in layers
        for weight in [weights[layer.name].first]
    )


def host_tensor(norm: object) -> Tensor | None:
    """A norm that can be read without asking other ranks: no DTensor."""
    return norm.detach() if isinstance(norm, Tensor) and not hasattr(norm, "to_local") else None
