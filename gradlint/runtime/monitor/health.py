"""What a sample shows beside sizes: who is trained by whom, units that are dead, modes, graphs that are kept."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd

from gradlint.runtime.monitor.data import Health
from gradlint.runtime.monitor.measure import Parcel, norms, numbers_of
from gradlint.runtime.monitor.parameters import Roster, readable

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
        self._units = Units(roster)
        self._graphs = Graphs()

    def tell(self, loss: Tensor, step: int) -> None:
        self._graphs.follow(loss, step)

    def look(self, step: int) -> Health:
        left_out = self._left_out()
        return Health(
            left_out,
            # Frameworks that train copies of the parameters write them back.
            bool(left_out) and self._foreign(),
            _asleep(self._roster.model),
            () if self._shard else self._units.look(),
            self._graphs.alive(step),
        )

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


def _asleep(model: nn.Module) -> tuple[str, ...]:
    if model.training:
        return ()
    kinds = {type(module).__name__: None for module in model.modules() if not module.training and _minds(module)}
    return tuple(kinds)


def _minds(module: nn.Module) -> bool:
    """Whether it does something else in eval mode."""
    if isinstance(module, _DropoutNd):
        return module.p > 0
    if isinstance(module, _BatchNorm):
        return module.track_running_stats
    return isinstance(module, nn.RNNBase | nn.MultiheadAttention) and module.dropout > 0


class Units:
    """Units of linear and convolutional layers whose bias has a gradient of exactly 0: so have their weights."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._names: list[str] = []
        self._sizes: list[int] = []
        self._zero: Tensor | None = None
        self._samples = 0

    @torch.no_grad()
    def look(self) -> tuple[tuple[str, float], ...]:
        """The layers with dead units, at every tenth sample; else nothing, and nothing waits for a device."""
        found = list(self._biases())
        names, gradients = [name for name, _ in found], [gradient for _, gradient in found]
        if len({(gradient.device, gradient.dtype) for gradient in gradients}) != 1:
            return ()
        zero = torch.cat(gradients) == 0
        same = self._zero is not None and names == self._names and self._zero.device == zero.device
        self._zero = self._zero & zero if same and self._zero is not None else zero
        self._samples = self._samples + 1 if same else 1
        self._names, self._sizes = names, [gradient.numel() for gradient in gradients]
        if self._samples < UNITS:
            return ()
        parts: tuple[Tensor, ...] = torch.split_with_sizes(self._zero.float(), self._sizes)
        shares: list[float] = torch.stack([part.mean() for part in parts]).tolist()
        self._zero = None
        # All of them is a dead layer, which is told by itself.
        return tuple((name, share) for name, share in zip(names, shares, strict=True) if 0 < share < 1)

    def _biases(self) -> Iterator[tuple[str, Tensor]]:
        for name, module in self._roster.model.named_modules():
            if isinstance(module, nn.Linear | _ConvNd) and isinstance(bias := module.bias, Tensor):
                if id(bias) in self._roster.members and bias.grad is not None and type(bias.grad) is Tensor:
                    yield readable(name) or type(module).__name__, bias.grad.reshape(-1)


class _Mark:
    """Lives as long as the graph it hangs on: the hooks of a node die with it."""

    __slots__ = ("__weakref__",)

    def __call__(self, *gradients: Any) -> None:
        return None


class Graphs:
    """Whether the graphs of losses die, as they should, soon after the step."""

    def __init__(self) -> None:
        self._marks: deque[tuple[int, weakref.ref[_Mark]]] = deque(maxlen=FOLLOWED)

    def follow(self, loss: Tensor, step: int) -> None:
        if loss.grad_fn is not None:
            mark = _Mark()
            loss.grad_fn.register_hook(mark)
            self._marks.append((step, weakref.ref(mark)))

    def alive(self, step: int) -> int:
        """Graphs of losses that were told at least ten steps ago."""
        self._marks = deque(((told, mark) for told, mark in self._marks if mark() is not None), maxlen=FOLLOWED)
        return sum(1 for told, _ in self._marks if told <= step - OLD)
