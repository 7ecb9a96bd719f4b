"""Loops that step by hand: `p -= lr * p.grad` is an optimizer's step, though no optimizer is there.

What a backward filled and no optimizer owns is taken together as one optimizer, of the type "by hand". A line that has
had these gradients in its hands, and after which the weights are others, is its step.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gradlint.runtime.recorder import edits, graph, norms
from gradlint.runtime.recorder.lives import Life, grad_of

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder

#: the type of such an optimizer in a recording
TYPE = "by hand"


class Weights:
    """Stands for the optimizer that is not there."""

    def __init__(self) -> None:
        self._known: dict[int, weakref.ref[Tensor]] = {}
        #: as they were behind the last backward
        self._copies: dict[int, Tensor] = {}
        #: it is known who has changed them since
        self._told: set[int] = set()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [{"params": [p for reference in self._known.values() if (p := reference()) is not None]}]

    def add(self, leaf: Tensor) -> None:
        self._known[id(leaf)] = weakref.ref(leaf)

    def drop(self, parameters: Iterable[Tensor]) -> None:
        for parameter in parameters:
            self._known.pop(id(parameter), None)

    def keep(self) -> None:
        self._copies = {id(p): norms.copy(p) for p in self.param_groups[0]["params"]}
        self._told = set()

    def moved(self, parameter: Tensor) -> bool:
        """It is not what it was behind the backward, and nobody has been told so yet."""
        before = self._copies.get(id(parameter))
        if before is None or id(parameter) in self._told or edits.same(before, parameter):
            return False
        self._told.add(id(parameter))
        return True

    def distance(self) -> float:
        """How far all of them have moved."""
        pairs = [(p, self._copies.get(id(p))) for p in self.param_groups[0]["params"]]
        return norms.total([norms.difference(p.detach(), old.clone()) for p, old in pairs if old is not None])


class ByHand:
    """The one such optimizer of a process."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._weights: Weights | None = None

    @property
    def life(self) -> Life | None:
        return self._recorder.lives.get(self._weights) if self._weights is not None else None

    def fed(self, losses: list[Tensor]) -> Life | None:
        """A backward that no optimizer had anything of: the leaves that it filled are stepped by hand, perhaps.

        Where there are optimizers, they train; what else gets gradients there is an input, say, that is attacked.
        """
        if any(life is not self.life for life in self._recorder.lives.alive()):
            return None
        leaves = [leaf for leaf in graph.leaf_tensors(losses) if self._is_free(leaf)]
        if not leaves:
            return None
        if self._weights is None:
            self._weights = Weights()
        for leaf in leaves:
            self._weights.add(leaf)
        life = self._recorder.life(self._weights, TYPE)
        self._recorder.lives.refresh()
        return life

    def _is_free(self, leaf: Tensor) -> bool:
        return grad_of(leaf) is not None and not leaf.is_meta and not self._recorder.lives.owners(leaf)

    def backward_over(self) -> None:
        if self._weights is not None:
            self._weights.keep()

    def moved(self, parameter: Tensor) -> bool:
        """It was changed since the backward; told once."""
        return self._weights is not None and self._weights.moved(parameter)

    def give_up(self, optimizer: Any) -> None:
        """An optimizer has come for them."""
        if self._weights is not None:
            self._weights.drop(p for group in optimizer.param_groups for p in group["params"])

    def stepped(self) -> float:
        """The step is told: how far it went; what comes now is measured from here."""
        assert self._weights is not None
        distance = self._weights.distance()
        self._weights.keep()
        return distance
