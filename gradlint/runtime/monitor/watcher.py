"""Watches one optimizer: sees its steps and the clips before them, and measures the gradients of every k-th step."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from gradlint.runtime.monitor.data import ClipCalls, Layer, Sample, Total
from gradlint.runtime.monitor.judge import SKIPS
from gradlint.runtime.monitor.measurement import (
    Norms,
    Roster,
    Transfer,
    current_scale,
    enabled,
    gradient_norms,
    measure,
    sharded,
    stored_scale,
    total,
)
from gradlint.runtime.monitor.observations import Circumstances, total_of
from gradlint.runtime.monitor.patches import LISTENERS
from gradlint.runtime.monitor.reading import (
    ArrivedClip,
    HealthCheck,
    Interval,
    Key,
    Reading,
    SeenClip,
    Since,
    Turn,
    Waiting,
    host_tensor,
    read,
)
from gradlint.runtime.norms import capturing
from gradlint.runtime.operations import Operation, delicate, origin

if TYPE_CHECKING:
    from gradlint.runtime.monitor.monitor import GradientMonitor

#: a limit under this, in true units, was not meant so: the clip saw scaled gradients. Above it the author may have
#: multiplied max_norm by the scale, which is right
MEANT = 0.05

#: losses that are kept until the next sample
LOSSES = 10_000

#: steps that wait on their device for the next sample, at most
TURNS = 1000

P = ParamSpec("P")


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
            self.monitor.failed(self.steps, error)

    return safe


class Watcher:
    """Sits between torch and a monitor, from `start` to `close`."""

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, scaler: Any, every: int, monitor: GradientMonitor
    ) -> None:
        self.roster = Roster(model, optimizer)
        self.roster.refresh()
        self.optimizer = optimizer
        self.scaler = scaler
        self.every = every
        self.monitor = monitor
        self.shard = sharded(model)
        self.health = HealthCheck(self.roster, self.shard)
        self.steps = 0
        self.skipped = 0
        self.skips: deque[int] = deque(maxlen=TURNS)
        self.silent = False
        self.clip_calls: dict[Key, ClipCalls] = {}
        self._streak = 0
        self._due = 1
        self._interval = Interval()
        self._since = Since()
        #: told for the next step, and those that have arrived since the last sample
        self._losses: deque[Tensor] = deque(maxlen=LOSSES)
        self._arrived: list[float] = []
        self._loss: weakref.ref[Tensor] | None = None
        #: the operation that made the last one NaN or Inf
        self._made_by: Operation | None = None
        #: clips whose norm is the total norm: it was so at the last sample
        self._trusted: set[Key] = set()
        self._handles: list[RemovableHandle] = []
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def start(self) -> None:
        if not self._handles:
            LISTENERS.add(self)
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
            LISTENERS.remove(self)
            self._settle()
            self._interval = Interval()

    @_quietly
    def tell(self, loss: Tensor | float) -> None:
        if isinstance(loss, Tensor):
            self._loss = weakref.ref(loss)
            self.health.tell(loss, self.steps + 1)
            self._losses.append(loss.detach())
            if loss.device.type == "cpu" and loss.numel() == 1 and not math.isfinite(float(loss.detach())):
                # Only now: the backward frees what the operations have saved.
                self._made_by = self._made_by or origin(loss, self.roster.names)
        else:
            self._losses.append(torch.tensor(float(loss)))

    @_quietly
    def before_clip(self, function: str, parameters: list[Tensor], limit: object, norm: object) -> None:
        """The gradients are about to change; `norm` is None where the clip tells it only afterwards, or never."""
        due = self.steps + 1 >= self._due
        if due:
            self.roster.refresh()
        if not any(id(p) in self.roster.members for p in parameters):
            return
        key = (function, id(parameters[0]), len(parameters))
        scale = stored_scale(self.scaler, self.optimizer)
        clip = SeenClip(key, float(limit), host_tensor(norm), scale)  # type: ignore[arg-type]
        again = any(other.key == key for other in self._interval.clips)
        if not capturing() and (again or self._interval.norms is None):
            self._interval.norms = self._norms_before(clip)
            due = due or self._startles()
            if due:
                transfer = self._interval.transfer = Transfer()
                self._interval.before = measure(self.roster.entries, transfer, scale, self.roster.weights)
        if key not in self.clip_calls:
            self.clip_calls[key] = ClipCalls(function, self.roster.share(parameters))
        clip.whole = self.clip_calls[key].whole
        self._interval.clips.append(clip)

    def _norms_before(self, clip: SeenClip) -> Norms:
        """The clip's own norm, where that is known to be the one of all gradients."""
        if clip.key in self._trusted and clip.norm is not None:
            return Norms([], [clip.norm], clip.scale)
        return gradient_norms(self.roster.entries, clip.scale)

    def _startles(self) -> bool:
        """Whether the norm is at hand, and such that this step must be sampled."""
        norms = self._interval.norms
        if norms is None or self.steps + 1 >= self._due:
            return False
        if not norms.tensors or any(tensor.device.type != "cpu" for tensor in norms.tensors):
            return False
        value = total(number for tensor in norms.tensors for number in tensor.reshape(-1).tolist())
        if not self.monitor.startling(value / (1.0 if norms.scale is None else float(norms.scale))):
            return False
        self._due = self.steps + 1
        return True

    @_quietly
    def clip_returned(self, function: str, parameters: list[Tensor], norm: object) -> None:
        last = self._interval.clips[-1] if self._interval.clips else None
        if last is not None and parameters and last.key == (function, id(parameters[0]), len(parameters)):
            last.norm = host_tensor(norm)

    @contextlib.contextmanager
    def scaler_steps(self, scaler: Any, optimizer: object) -> Iterator[None]:
        """Round `scaler.step(optimizer)`."""
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
        if capturing():
            self.steps += 1
            self._interval = Interval()
            return
        if self._made_by is not None and self.steps + 1 < self._due and self.monitor.startling(math.nan):
            self._due = self.steps + 1
        if self._interval.norms is None and self.steps + 1 < self._due:
            self._interval.norms = gradient_norms(self.roster.entries, stored_scale(self.scaler, self.optimizer))
            self._startles()
        self.steps += 1
        found = vars(self.optimizer).get("found_inf")
        if isinstance(found, Tensor):  # a fused optimizer decides on its device whether it skips the step
            self._since.found.append((self.steps, found))
        else:
            self._streak = 0
        for clip in self._interval.clips:
            clip.step = self.steps
        self._since.clips += self._interval.clips
        sampled = self.steps >= self._due
        turn = self._turn(sampled)
        self._since.turns.append(turn)
        if sampled or len(self._since.turns) >= TURNS:
            self._sample() if sampled else self._settle()
        elif turn is self._since.turns[0] and turn.at_hand and not self._since.found:
            self._settle_turns()
        self._interval = Interval()
        self._made_by = None

    def _turn(self, sampled: bool) -> Turn:
        norms = self._interval.norms if self._interval.norms and not sampled else Norms()
        losses = list(self._losses)
        self._losses.clear()
        whole = [clip for clip in self._interval.clips if clip.whole and clip.key[0] != "clip_grad_value_"]
        return Turn(self.steps, norms, losses, whole[-1] if whole else None)

    def _settle_turns(self) -> None:
        """Steps that are on the host already: they are judged at once."""
        transfer = Transfer()
        waiting = Waiting(Since(self._since.turns), transfer)
        self._since.turns = []
        transfer.open()
        self._judge_steps(waiting.totals, set(), at_once=True)

    def _judge_steps(
        self, totals: Iterable[tuple[Total, list[float]]], skipped: set[int], at_once: bool = False
    ) -> None:
        for each, losses in totals:
            self._arrived += losses
            if each.step not in skipped:
                self.monitor.stepped(each, at_once)

    def _sample(self) -> None:
        self.roster.refresh()
        reading = read(self.roster, self.optimizer, self.scaler, self._interval, self._since)
        self._since = Since()
        skipped = self._count_skips(reading.skips)
        clips = [clip for clip in reading.clips if clip.step not in skipped]
        *before, (last, losses) = reading.totals
        self._judge_steps(before, skipped)
        self._arrived += losses
        if self.steps in skipped:
            self._count_clips(clips)
            self._complain(reading.scale, reading.layers)
            return  # the next step is sampled in its place
        here = [clip for clip in clips if clip.step == self.steps]
        self._count_clips(clips, changed=_changed(reading))
        self._trust(reading.norm, here)
        self._due = (self.steps // self.every + 1) * self.every
        sample = self._made_of(reading, here)
        self._arrived.clear()
        total_ = dataclasses.replace(total_of(sample, last.limit), loss=last.loss)
        self.monitor.sampled(sample, total_, self._circumstances(reading, here))

    def _trust(self, norm: float, here: Iterable[ArrivedClip]) -> None:
        """Another kind of norm, or one of some parameters, is none of the total: it differs where both are known."""
        if math.isfinite(norm):
            for clip in here:
                agrees = clip.norm is not None and math.isclose(clip.norm / (clip.scale or 1.0), norm, rel_tol=1e-3)
                (self._trusted.add if agrees and self.clip_calls[clip.key].whole else self._trusted.discard)(clip.key)

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
            sum(self._arrived) / len(self._arrived) if self._arrived else None,
            reading.layers,
            self.shard,
            self.seconds,
        )

    def _circumstances(self, reading: Reading, here: list[ArrivedClip]) -> Circumstances:
        scaled = [clip.true_limit for clip in here if clip.scale is not None and clip.true_limit < MEANT]
        # Inside of scaler.step a fused optimizer divides by `grad_scale` itself.
        bypassed = reading.divisor != 1.0 and "grad_scale" not in vars(self.optimizer)
        finite = all(layer.finite for layer in reading.layers)
        loss = None if finite or self._loss is None else self._loss()
        return Circumstances(
            min(scaled, default=None),
            reading.divisor if bypassed else None,
            self.roster.missing,
            self.health.look(self.steps),
            "" if self._made_by is None else self._made_by.said,
            () if loss is None else tuple(operation.short for operation in delicate(loss)),
        )

    @_quietly
    def _step_was_skipped(self) -> None:
        self.steps += 1
        self._interval = Interval()  # its norms are those of gradients that were not used
        self._count_skips([(self.steps, True)])
        scale = current_scale(self.scaler)
        if self._streak > 1 and scale is not None:
            value = float(scale)  # the scaler has waited for the device already, to see that it must skip
            if value < 1 or self._streak >= SKIPS:
                transfer = Transfer()
                measured = measure(self.roster.entries, transfer)
                transfer.open()
                self._complain(value, measured.layers())

    def _complain(self, scale: float, layers: tuple[Layer, ...]) -> None:
        if self._streak >= SKIPS or (self._streak > 1 and scale < 1):
            self.monitor.skipping(self.steps, self._streak, scale, layers)

    def _count_skips(self, skips: Iterable[tuple[int, bool]]) -> set[int]:
        skips = list(skips)
        for step, skipped in skips:
            self.skipped += skipped
            if skipped:
                self.skips.append(step)
            self._streak = self._streak + 1 if skipped else 0
        return {step for step, skipped in skips if skipped}

    def _count_clips(self, clips: Iterable[ArrivedClip], changed: bool | None = None) -> None:
        for clip in clips:
            if clip.norm is not None:
                self.clip_calls[clip.key].count(clip.norm, clip.limit, clip.scale)
            elif clip.step == self.steps and changed is not None:
                self.clip_calls[clip.key].count_change(clip.limit, changed)

    @_quietly
    def _settle(self) -> None:
        """What has come since the last sample."""
        transfer = Transfer()
        waiting = Waiting(self._since, transfer)
        transfer.open()
        self._since = Since()
        skipped = self._count_skips(waiting.skips)
        self._count_clips(clip for clip in waiting.clips if clip.step not in skipped)
        self._judge_steps(waiting.totals, skipped)


def _closure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`args` begin with the optimizer itself."""
    return any(callable(arg) for arg in args[1:]) or callable(kwargs.get("closure"))


def _changed(reading: Reading) -> bool:
    return reading.used < reading.norm * (1 - 1e-6)


def _acted(reading: Reading, here: list[ArrivedClip]) -> bool | None:
    """A clip changed the gradients; None where there was none."""
    if not here:
        return None
    return any(_changed(reading) if clip.norm is None else clip.norm > clip.limit for clip in here)
