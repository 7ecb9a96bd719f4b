"""What the recorder and the monitor both ask of a model: names as its author knows them, modes, dead units, graphs."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd

from gradlint.runtime.norms import capturing

#: parts of a name that wrappers inside the model put there
_WRAPPING = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})


def readable(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in _WRAPPING)


def asleep(model: nn.Module) -> tuple[str, ...]:
    """The kinds of layers that do something else in eval mode, of a model that is in it."""
    if model.training:
        return ()
    return tuple({type(module).__name__: None for module in model.modules() if not module.training and _minds(module)})


def _minds(module: nn.Module) -> bool:
    if isinstance(module, _DropoutNd):
        return module.p > 0
    if isinstance(module, _BatchNorm):
        return bool(module.track_running_stats)
    return isinstance(module, nn.RNNBase | nn.MultiheadAttention) and module.dropout > 0


def biases(model: nn.Module) -> Iterator[tuple[str, nn.Module, Tensor]]:
    """Of linear and convolutional layers: where its gradient is exactly 0, so is that of the unit's weights."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | _ConvNd) and isinstance(module.bias, Tensor):
            yield name, module, module.bias


class Units:
    """Units that had no gradient whenever one looked."""

    def __init__(self) -> None:
        self.looks = 0
        self._names: list[str] = []
        self._sizes: list[int] = []
        self._zero: Tensor | None = None

    @torch.no_grad()
    def look(self, found: Sequence[tuple[str, Tensor]]) -> None:
        """At the gradients of biases, by name; nothing waits for a device. Others than before begin anew."""
        names, gradients = [name for name, _ in found], [gradient.reshape(-1) for _, gradient in found]
        if len({(gradient.device, gradient.dtype) for gradient in gradients}) != 1:
            return
        if capturing():
            return
        zero = torch.cat(gradients) == 0
        same = self._zero is not None and names == self._names and self._zero.device == zero.device
        self._zero = self._zero & zero if same and self._zero is not None else zero
        self.looks = self.looks + 1 if same else 1
        self._names, self._sizes = names, [gradient.numel() for gradient in gradients]

    def shares(self) -> dict[str, float]:
        """How many of each layer's units are dead, 0 to 1."""
        if self._zero is None:
            return {}
        parts: tuple[Tensor, ...] = torch.split_with_sizes(self._zero.float(), self._sizes)
        shares: list[float] = torch.stack([part.mean() for part in parts]).tolist()
        return dict(zip(self._names, shares, strict=True))


class _Mark:
    """Lives as long as the graph that it lies in."""

    __slots__ = ("__weakref__",)


class Graphs:
    """Whether the graphs of losses die, as they should, soon after the step."""

    #: under which the mark lies in the topmost node
    _KEY = "gradlint_alive"

    def __init__(self, most: int | None = None) -> None:
        self._marks: deque[tuple[int, weakref.ref[_Mark]]] = deque(maxlen=most)

    def follow(self, loss: Tensor, step: int) -> None:
        node: Any = loss.grad_fn
        if node is not None and self._KEY not in node.metadata:
            mark = node.metadata[self._KEY] = _Mark()
            self._marks.append((step, weakref.ref(mark)))

    def alive(self, until: int) -> int:
        """Graphs of losses that were followed up to this step."""
        living = [(told, mark) for told, mark in self._marks if mark() is not None]
        self._marks = deque(living, maxlen=self._marks.maxlen)
        return sum(told <= until for told, _ in living)
