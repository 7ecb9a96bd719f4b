"""What is done to gradients and weights by hand, judged by the numbers before and after.

`p -= lr * p.grad` is an optimizer's step, though no optimizer is there. What a backward filled and no optimizer owns is
taken together as one optimizer, of the type "by hand". A line that has had these gradients in its hands, and after
which the weights are others, is its step.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradlint.runtime import norms
from gradlint.runtime.recorder import backward
from gradlint.runtime.recorder.lives import Life, grad_of, parameters_of

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder


#: relative errors that are rounding
CLOSE = 1e-4


@dataclass(frozen=True, slots=True)
class Pair:
    """One gradient before and after, and the parameter it belongs to; None where there was none."""

    parameter: Tensor
    before: Tensor | None
    after: Tensor | None


def same(left: Tensor | None, right: Tensor | None) -> bool:
    """Equal number for number; NaN is equal to NaN."""
    if left is None or right is None:
        return left is right
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    one, other = norms.plain(left), norms.plain(right)
    if one is None or other is None or one.shape != other.shape:
        return one is other
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def empty(tensor: Tensor | None) -> bool:
    """No gradient, or nothing but zeros."""
    if tensor is None:
        return True
    numbers = norms.plain(tensor)
    return numbers is not None and not bool(numbers.any())


def judge(pairs: Sequence[Pair], methods: frozenset[str]) -> tuple[str, float | None]:
    """How they were edited, and by which factor; `methods` are the names called on them, for what numbers hide."""
    found = [(pair.parameter, a, b) for pair in pairs if (a := _numbers(pair.before)) is not None
             and (b := _numbers(pair.after)) is not None and a.shape == b.shape]  # fmt: skip
    if not found or len(found) < len(pairs):
        return "other", None
    parameters = [p for p, _, _ in found]
    before, after = [a for _, a, _ in found], [b for _, _, b in found]
    factor = _factor(before, after)
    clamps = any(name.startswith(("clamp", "clip")) for name in methods)
    if factor is not None and not (clamps and factor == 1.0):
        return ("divide" if abs(factor) < 1 else "scale"), factor
    if clamps or _clamped(before, after):
        return "clamp", None
    return ("noise" if _noise(parameters, before, after) else "other"), None


def _numbers(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else norms.plain(tensor)


def _factor(before: Sequence[Tensor], after: Sequence[Tensor]) -> float | None:
    """The one number that all of them were multiplied by."""
    square, both, _ = norms.products(before, after)
    if not square or square != square or square == float("inf"):
        return None
    factor = both / square
    rest = norms.total([b - a * factor for a, b in zip(before, after, strict=True)])
    if rest > CLOSE * norms.total(after):
        return None
    return 1.0 if abs(factor - 1.0) < 1e-9 else factor


def _clamped(before: Sequence[Tensor], after: Sequence[Tensor]) -> bool:
    low = min(float(b.min()) for b in after if b.numel())
    high = max(float(b.max()) for b in after if b.numel())
    if not any(bool((a == b).any()) for a, b in zip(before, after, strict=True)):
        return False
    return all(torch.equal(a.clamp(low, high), b) for a, b in zip(before, after, strict=True))


def _noise(parameters: Sequence[Tensor], before: Sequence[Tensor], after: Sequence[Tensor]) -> bool:
    """Every number moved, up or down as it came, and not along the gradient or the weights (decay by hand)."""
    change = [b - a for a, b in zip(before, after, strict=True)]
    count = sum(c.numel() for c in change)
    if count < 8 or sum(int((c == 0).sum()) for c in change) > count // 20:
        return False
    if not 0.2 < sum(int((c > 0).sum()) for c in change) / count < 0.8:
        return False
    weights = [w for p in parameters if (w := norms.plain(p)) is not None]
    size = norms.total(change)
    along = [norms.dot(change, other) / (size * (norms.total(other) or 1.0)) for other in (before, weights)
             if len(other) == len(change)]  # fmt: skip
    return all(abs(cosine) < 0.5 for cosine in along)


# -- steps by hand -----------------------------------------------------------------------------------------------------


class ByHand:
    """Stands for the optimizer that is not there; there is one for each recorder."""

    #: its type in a recording
    TYPE = "by hand"

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: dict[int, weakref.ref[Tensor]] = {}
        #: as they were behind the last backward
        self._copies: dict[int, Tensor] = {}
        #: it is known who has changed them since
        self._told: set[int] = set()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [{"params": [p for reference in self._known.values() if (p := reference()) is not None]}]

    @property
    def life(self) -> Life | None:
        """None as long as nothing was fed to it."""
        return self._recorder.lives.get(self)

    def fed(self, losses: list[Tensor]) -> Life | None:
        """A backward that no optimizer had anything of: the leaves that it filled are stepped by hand, perhaps.

        Where there are optimizers, they train; what else gets gradients there is an input, say, that is attacked.
        """
        lives = self._recorder.lives
        if any(life is not self.life for life in lives.alive()):
            return None
        leaves = (backward.leaves(losses) or {}).values()
        free = {id(x): x for x in leaves if grad_of(x) is not None and not x.is_meta and not lives.owners(x)}
        if not free:
            return None
        self._known |= {key: weakref.ref(leaf) for key, leaf in free.items()}
        life = self._recorder.life(self, self.TYPE)
        lives.refresh()
        return life

    def keep(self) -> None:
        """What comes now is measured from here."""
        self._copies = {id(p): norms.copy(p) for p in self.param_groups[0]["params"]}
        self._told = set()

    def moved(self, parameter: Tensor) -> bool:
        """It is not what it was behind the backward, and nobody has been told so yet."""
        before = self._copies.get(id(parameter))
        if before is None or id(parameter) in self._told or same(before, parameter):
            return False
        self._told.add(id(parameter))
        return True

    def give_up(self, optimizer: Any) -> None:
        """An optimizer has come for them."""
        for parameter in parameters_of(optimizer):
            self._known.pop(parameter, None)

    def stepped(self) -> float:
        """The step is told: how far all of them have gone."""
        pairs = [(p, self._copies.get(id(p))) for p in self.param_groups[0]["params"]]
        distance = norms.total([p.detach() - old for p, old in pairs if old is not None])
        self.keep()
        return distance
