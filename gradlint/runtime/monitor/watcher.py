"""Watches one optimizer: sees its steps and the clips before them, and measures the gradients of every k-th step."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Concatenate, ParamSpec, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from gradlint.runtime.monitor.clips import Tally
from gradlint.runtime.monitor.data import Layer, Sample
from gradlint.runtime.monitor.judge import SKIPS, Circumstances
from gradlint.runtime.monitor.measure import Parcel, measure
from gradlint.runtime.monitor.parameters import Roster, sharded
from gradlint.runtime.monitor.patches import PATCHES
from gradlint.runtime.monitor.reading import (
    ArrivedClip,
    Key,
    Reading,
    SeenClip,
    Since,
    Waiting,
    Window,
    host_tensor,
    read,
)
from gradlint.runtime.monitor.scale import current_scale, enabled, stored_scale

#: a limit under this, in true units, was not meant so: the clip saw scaled gradients. Above it the author may have
#: multiplied max_norm by the scale, which is right
MEANT = 0.05

#: losses that are kept until the next sample
LOSSES = 10_000

P = ParamSpec("P")


class Audience(Protocol):
    """Who wants to know; a monitor."""

    def sampled(self, sample: Sample, circumstances: Circumstances) -> None: ...

    def skipping(self, step: int, streak: int, scale: float, layers: tuple[Layer, ...]) -> None: ...

    def failed(self, step: int, error: Exception) -> None: ...


def _quietly(method: Callable[Concatenate[Watcher, P], None]) -> Callable[Concatenate[Watcher, P], None]:
    """Whatever goes wrong in here, training goes on: it is told once, and the watcher falls silent."""

    @functools.wraps(method)
    def safe(self: Watcher, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if self.silent:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            self.silent = True
            self.audience.failed(self.steps, error)

    return safe


class Watcher:
    """Sits between torch and a monitor, from `start` to `close`."""

    def __init__(self, model: nn.Module, optimizer: Optimizer, scaler: Any, every: int, audience: Audience) -> None:
        self.roster = Roster(model, optimizer)
        self.roster.refresh()
        self.optimizer = optimizer
        self.scaler = scaler
        self.every = every
        self.audience = audience
        self.shard = sharded(model)
        self.steps = 0
        self.skipped = 0
        self.silent = False
        self.tallies: dict[Key, Tally] = {}
        self._streak = 0
        self._due = 1
        self._window = Window()
        self._since = Since()
        self._losses: deque[Tensor] = deque(maxlen=LOSSES)
        self._handles: list[RemovableHandle] = []
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def start(self) -> None:
        if not self._handles:
            PATCHES.add(self)
            # A compiled step is compiled without them.
            uncompiled: Any = torch.compiler.disable
            self._handles = [
                self.optimizer.register_step_pre_hook(uncompiled(self._before_step)),
                self.optimizer.register_step_post_hook(uncompiled(self._after_step)),
            ]

    def close(self) -> None:
        if self._handles:
            for handle in self._handles:
                handle.remove()
            self._handles = []
            PATCHES.remove(self)
            self._count_rest()
            self._window = Window()

    @_quietly
    def tell(self, loss: Tensor | float) -> None:
        self._losses.append(loss.detach() if isinstance(loss, Tensor) else torch.tensor(float(loss)))

    @_quietly
    def before_clip(self, function: str, parameters: list[Tensor], limit: object, norm: object) -> None:
        due = self.steps + 1 >= self._due
        if due:
            self.roster.refresh()
        if not any(id(p) in self.roster.members for p in parameters):
            return
        key = (function, id(parameters[0]), len(parameters))
        scale = stored_scale(self.scaler, self.optimizer)
        again = any(clip.key == key for clip in self._window.clips)
        if due and (again or self._window.before is None) and not _capturing():
            self._window.parcel = Parcel()
            self._window.before = measure(self.roster.entries, self._window.parcel, scale)
        if key not in self.tallies:
            self.tallies[key] = Tally(function, self.roster.share(parameters))
        # The scaler changes its scale in place, at the next update().
        kept = None if scale is None else scale.detach().clone()
        self._window.clips.append(SeenClip(key, float(limit), host_tensor(norm), kept))  # type: ignore[arg-type]

    @_quietly
    def clip_returned(self, function: str, parameters: list[Tensor], norm: object) -> None:
        last = self._window.clips[-1] if self._window.clips else None
        if last is not None and parameters and last.key == (function, id(parameters[0]), len(parameters)):
            last.norm = host_tensor(norm)

    @contextlib.contextmanager
    def scaler_steps(self, scaler: Any, optimizer: object) -> Iterator[None]:
        if optimizer is not self.optimizer or self.silent or not enabled(scaler):
            yield
            return
        self.scaler = scaler
        steps = self.steps
        yield
        if self.steps == steps:
            self._step_was_skipped()

    def _before_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not _closure(args, kwargs):
            self._at_step()

    def _after_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _closure(args, kwargs):  # the gradients were made inside of the step
            self._at_step()

    @_quietly
    def _at_step(self) -> None:
        self.steps += 1
        found = vars(self.optimizer).get("found_inf")
        if isinstance(found, Tensor):  # a fused optimizer decides on its device whether it skips the step
            self._since.found.append((self.steps, found))
        else:
            self._streak = 0
        for clip in self._window.clips:
            clip.step = self.steps
        self._since.clips += self._window.clips
        if self.steps >= self._due and not _capturing():
            self._sample()
        self._window = Window()

    def _sample(self) -> None:
        self.roster.refresh()
        reading = read(self.roster, self.optimizer, self.scaler, self._window, self._since, self._losses)
        self._since = Since()
        skipped = self._count_skips(reading.skips)
        clips = [clip for clip in reading.clips if clip.step not in skipped]
        if self.steps in skipped:
            self._count_clips(clips)
            self._complain(reading.scale, reading.layers)
            return  # the next step is sampled in its place
        here = [clip for clip in clips if clip.step == self.steps]
        self._count_clips(clips, changed=_changed(reading))
        self._losses.clear()
        self._due = (self.steps // self.every + 1) * self.every
        self.audience.sampled(self._made_of(reading, here), self._circumstances(reading, clips, here))

    def _made_of(self, reading: Reading, here: list[ArrivedClip]) -> Sample:
        return Sample(
            self.steps,
            reading.norm,
            reading.used,
            # Several clips, for several parts of the model, have no common limit.
            here[-1].true_limit if len({clip.key for clip in here}) == 1 else None,
            _acted(reading, here),
            reading.scale,
            any(clip.scale is not None for clip in here),
            tuple(float(group.get("lr", math.nan)) for group in self.optimizer.param_groups),
            sum(reading.losses) / len(reading.losses) if reading.losses else None,
            reading.layers,
            self.shard,
            self.seconds,
        )

    def _circumstances(self, reading: Reading, clips: list[ArrivedClip], here: list[ArrivedClip]) -> Circumstances:
        scaled = [clip.true_limit for clip in here if clip.scale is not None and clip.true_limit < MEANT]
        # Inside of scaler.step a fused optimizer divides by `grad_scale` itself.
        bypassed = reading.divisor != 1.0 and "grad_scale" not in vars(self.optimizer)
        return Circumstances(
            # A loop may look at the norm and try again: the last clip before a step counts.
            tuple(clip.step for clip in {(clip.step, clip.key): clip for clip in clips}.values() if clip.broken),
            min(scaled, default=None),
            reading.divisor if bypassed else None,
        )

    @_quietly
    def _step_was_skipped(self) -> None:
        self.steps += 1
        self._window = Window()  # its norms are those of gradients that were not used
        self._count_skips([(self.steps, True)])
        scale = current_scale(self.scaler)
        if self._streak > 1 and scale is not None:
            value = float(scale)  # the scaler has waited for the device already, to see that it must skip
            if value < 1 or self._streak >= SKIPS:
                parcel = Parcel()
                layers = measure(self.roster.entries, parcel).layers(parcel.open())
                self._complain(value, layers)

    def _complain(self, scale: float, layers: tuple[Layer, ...]) -> None:
        if self._streak >= SKIPS or (self._streak > 1 and scale < 1):
            self.audience.skipping(self.steps, self._streak, scale, layers)

    def _count_skips(self, skips: Iterable[tuple[int, bool]]) -> set[int]:
        skips = list(skips)
        for _, skipped in skips:
            self.skipped += skipped
            self._streak = self._streak + 1 if skipped else 0
        return {step for step, skipped in skips if skipped}

    def _count_clips(self, clips: Iterable[ArrivedClip], changed: bool | None = None) -> None:
        for clip in clips:
            if clip.norm is not None:
                self.tallies[clip.key].count(clip.norm, clip.limit, clip.scale)
            elif clip.step == self.steps and changed is not None:
                self.tallies[clip.key].count_change(clip.limit, changed)

    @_quietly
    def _count_rest(self) -> None:
        """What came after the last sample."""
        parcel = Parcel()
        waiting = Waiting(self._since, parcel)
        numbers = parcel.open()
        skipped = self._count_skips(waiting.skips(numbers))
        self._count_clips(clip for clip in waiting.clips(numbers) if clip.step not in skipped)
        self._since = Since()


def _closure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`args` begin with the optimizer itself."""
    return any(callable(arg) for arg in args[1:]) or callable(kwargs.get("closure"))


def _capturing() -> bool:
    """A CUDA graph is being recorded: nothing may be copied to the host."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def _changed(reading: Reading) -> bool:
    return reading.used < reading.norm * (1 - 1e-6)


def _acted(reading: Reading, here: list[ArrivedClip]) -> bool | None:
    """A clip changed the gradients; None where there was none."""
    if not here:
        return None
    return any(_changed(reading) if clip.norm is None else clip.norm > clip.limit for clip in here)
