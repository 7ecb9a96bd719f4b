"""All numbers of one sample: gathered where they are, brought to the host together, and put into true units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from gradlint.runtime.monitor.data import Layer
from gradlint.runtime.monitor.measure import Measurement, Parcel, measure, put_norms, total
from gradlint.runtime.monitor.parameters import Roster
from gradlint.runtime.monitor.scale import current_scale, stored_scale

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
class Since:
    """What waits for the next copy to the host: clips, and whether fused optimizers skipped their steps."""

    clips: list[SeenClip] = field(default_factory=list)
    found: list[tuple[int, Tensor]] = field(default_factory=list)


@dataclass(slots=True)
class Window:
    """What was seen since the last step."""

    clips: list[SeenClip] = field(default_factory=list)
    #: the gradients before the clip; only in a window whose step is sampled
    before: Measurement | None = None
    parcel: Parcel = field(default_factory=Parcel)


class Waiting:
    """Puts what waits into a parcel, and reads it when that is open."""

    def __init__(self, since: Since, parcel: Parcel) -> None:
        self._steps = [step for step, _ in since.found]
        self._found = parcel.put(tensor for _, tensor in since.found)
        self._clips = [(clip, _put(clip.norm, parcel), _put(clip.scale, parcel)) for clip in since.clips]

    def skips(self, numbers: Sequence[float]) -> list[tuple[int, bool]]:
        """For each step of a fused optimizer, whether it was skipped."""
        return [(step, value != 0) for step, value in zip(self._steps, numbers[self._found], strict=True)]

    def clips(self, numbers: Sequence[float]) -> list[ArrivedClip]:
        return [
            ArrivedClip(clip.key, clip.step, clip.limit, _take(norm, numbers), _take(scale, numbers))
            for clip, norm, scale in self._clips
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
    losses: Sequence[float]
    #: since the last sample
    clips: list[ArrivedClip]
    skips: list[tuple[int, bool]]


def read(
    roster: Roster, optimizer: Optimizer, scaler: Any, window: Window, since: Since, losses: Iterable[Tensor]
) -> Reading:
    """Measures what was not measured before the clip, and copies all that there is to the host."""
    parcel = window.parcel
    stored, current = stored_scale(scaler, optimizer), current_scale(scaler)
    clipped = window.before is not None
    before = window.before or measure(roster.entries, parcel, stored)
    after = put_norms(roster.entries, parcel) if clipped else []
    divisor, scale = _put(stored, parcel), _put(current, parcel)
    told, waiting = parcel.put(losses), Waiting(since, parcel)

    numbers = parcel.open()
    layers = before.layers(numbers)
    norm = total(layer.norm for layer in layers)
    factor = _take(divisor, numbers) or 1.0
    used = total(value for part in after for value in numbers[part]) / factor if clipped else norm
    return Reading(
        layers,
        norm,
        used,
        _take(scale, numbers) or 1.0,
        factor,
        numbers[told],
        waiting.clips(numbers),
        waiting.skips(numbers),
    )


def host_tensor(norm: object) -> Tensor | None:
    """A norm that can be read without asking other ranks: no DTensor."""
    return norm.detach() if isinstance(norm, Tensor) and not hasattr(norm, "to_local") else None


def _put(tensor: Tensor | None, parcel: Parcel) -> slice | None:
    return None if tensor is None else parcel.put([tensor])


def _take(at: slice | None, numbers: Sequence[float]) -> float | None:
    return None if at is None else numbers[at][0]
