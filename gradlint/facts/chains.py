"""Chains of layers: what a gradient passes one after the other, with nothing between that helps it."""

from __future__ import annotations

from collections.abc import Iterable

from gradlint.knowledge.layers import Role
from gradlint.python.values import Value
from gradlint.records import dataclass, field
from gradlint.subjects import Layer, Stack

#: longer chains are not followed further
_LONGEST = 200

Chain = tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class Unknown(Value):
    """Anything; perhaps a tensor or a module."""


@dataclass(frozen=True, slots=True)
class Setting(Value):
    """A number or a switch that comes from elsewhere: no tensor."""


@dataclass(frozen=True, slots=True)
class Leaf(Value):
    """A module of one layer."""

    layer: Layer


@dataclass(frozen=True, slots=True)
class Tensor(Value):
    """What came out of these layers."""

    chain: Chain = ()


UNKNOWN, SETTING, FRESH = Unknown(), Setting(), Tensor()
#: a module of which nothing is known: whatever chain there was ends with it
END = Leaf(Layer(Role.BREAK, -1, -1))


@dataclass(slots=True)
class Chains:
    """The chains of a file, and the activations that are no part of a stack (gates, residual branches)."""

    chains: set[Chain] = field(default_factory=set)
    excused: set[int] = field(default_factory=set)

    def apply(self, layer: Layer, tensor: Value) -> Value:
        """The tensor behind one more layer."""
        if layer.role is Role.NEUTRAL:
            return tensor
        before = tensor.chain if isinstance(tensor, Tensor) else ()
        if layer.role is Role.BREAK or len(before) >= _LONGEST:
            return FRESH
        chain = (*before, layer)
        self.chains.add(chain)
        return Tensor(chain)

    def merge(self, tensors: Iterable[Value]) -> Value:
        """Tensors that are added, multiplied or put side by side: what only some of them went through is a branch."""
        chains = [t.chain if isinstance(t, Tensor) else () for t in tensors]
        shared = min((len(_common(chains[0], c)) for c in chains), default=0) if chains else 0
        for chain in chains:
            self.excused.update(layer.used for layer in chain[shared:])
        return FRESH

    def stacks(self) -> list[Stack]:
        """The saturating parts of the chains; those that begin at the same place are one."""
        chains = self._longest()
        outputs = {chain[-1].made for chain in chains if chain[-1].role is Role.SATURATING}
        inside = {layer.used for chain in chains for layer in _hidden(chain)}
        strangers = {c[-1].made for c in self.chains if c[-1].role is Role.SATURATING and c[-1].used not in inside}
        found: dict[int, Stack] = {}
        for chain in chains:
            hidden = _hidden(chain)
            alone = not {layer.made for layer in hidden} & (outputs | strangers)
            if hidden and len(hidden) > len(found.get(hidden[0].used, Stack((), True)).hidden):
                found[hidden[0].used] = Stack(hidden, alone)
        return list(found.values())

    def _longest(self) -> list[Chain]:
        """The chains that are no part of another, without those that have a branch in them."""
        kept: list[Chain] = []
        texts: list[str] = []
        for chain in sorted(self.chains, key=len, reverse=True):
            if any(layer.used in self.excused for layer in chain):
                continue
            text = "".join(f"<{layer.made}:{layer.role.value}>" for layer in chain)
            if not any(text in other for other in texts):
                kept.append(chain)
                texts.append(text)
        return kept


def _hidden(chain: Chain) -> Chain:
    """The activations right behind one layer with weights and in front of another; the output's is none of them."""
    last = max((n for n, layer in enumerate(chain) if layer.role is Role.AFFINE), default=0)
    return tuple(
        layer
        for n, layer in enumerate(chain[:last])
        if layer.role is Role.SATURATING and n and chain[n - 1].role is Role.AFFINE
    )


def _common(one: Chain, other: Chain) -> Chain:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return one[:count]
