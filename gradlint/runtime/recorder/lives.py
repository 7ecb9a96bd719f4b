"""The optimizers of a run, and what is known of the gradients of each."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gradlint.runtime import norms
from gradlint.runtime.recording import Gradient

#: reads `.grad` past the property that the recorder puts on tensors
grad_of: Callable[[Tensor], Tensor | None] = vars(torch._C.TensorBase)["grad"].__get__


@dataclass(slots=True, eq=False)
class Life:
    """One optimizer: the state of its gradients."""

    id: str
    type: str
    reference: weakref.ref[Any]
    #: what its gradients are multiplied by
    scale: float = 1.0
    clipped: bool = False
    reduced: bool | None = None
    #: since they were last cleared or used
    backwards: int = 0
    steps: int = 0
    #: how many parameters it had when they were last counted
    size: int = 0
    #: it leaves the step to another optimizer of the same parameters: no life of its own
    wrapper: bool = False
    #: an optimizer of the same kind that had the very same parameters when this one was made
    before: Life | None = None

    def parameters(self) -> list[Tensor]:
        optimizer = self.reference()
        if optimizer is None:
            return []
        return list({id(p): p for group in optimizer.param_groups for p in group["params"]}.values())

    def rates(self) -> tuple[float, ...]:
        optimizer = self.reference()
        groups = optimizer.param_groups if optimizer is not None else []
        return tuple(float(group["lr"]) for group in groups if group.get("lr") is not None)

    def gradient(self, values: Mapping[int, Tensor | None] | None = None, scale: float | None = None) -> Gradient:
        """Its gradients as they are now, or with some of them (by the id of the parameter) as in `values`."""
        parameters = self.parameters()
        asked = values or {}
        grads = [asked[id(p)] if id(p) in asked else grad_of(p) for p in parameters]
        present = [g for g in grads if g is not None]
        return Gradient(
            optimizer=self.id,
            norm=norms.total(present),
            scale=self.scale if scale is None else scale,
            clipped=self.clipped,
            reduced=self.reduced,
            present=len(present),
            total=len(parameters),
            backwards=self.backwards,
        )

    def succeed(self) -> None:
        """Made anew for each epoch, say: where the other is gone, this one goes on with the same gradients."""
        other = self.before
        if other is None or self.steps or other.reference() is not None:
            return
        self.before = None
        self.id, self.steps, self.backwards = other.id, other.steps, other.backwards
        self.scale, self.clipped, self.reduced = other.scale, other.clipped, other.reduced

    def cleared(self) -> None:
        """Nothing is left of its gradients."""
        self.scale, self.clipped, self.backwards = 1.0, False, 0
        self.reduced = None


@dataclass(slots=True)
class Named:
    """Objects that were given an id: `scaler1`, `scaler2`; nothing is written on the objects themselves."""

    role: str
    count: int = 0
    _ids: dict[int, tuple[weakref.ref[Any], str]] = field(default_factory=dict)

    def get(self, thing: Any) -> str:
        """The id it was given, or ""."""
        known = self._ids.get(id(thing))
        return known[1] if known is not None and known[0]() is thing else ""

    def give(self, thing: Any) -> str:
        self.count += 1
        name = f"{self.role}{self.count}"
        self.name(thing, name)
        return name

    def name(self, thing: Any, name: str) -> None:
        self._ids[id(thing)] = (weakref.ref(thing), name)

    def alive(self) -> Iterator[tuple[str, Any]]:
        for reference, name in list(self._ids.values()):
            thing = reference()
            if thing is not None:
                yield name, thing


class Lives:
    """All optimizers that were met."""

    def __init__(self) -> None:
        self._lives: dict[int, Life] = {}
        self._count = 0
        self._owners: dict[int, tuple[weakref.ref[Tensor], list[Life]]] = {}

    def get(self, optimizer: Any) -> Life | None:
        life = self._lives.get(id(optimizer))
        return life if life is not None and life.reference() is optimizer else None

    def meet(self, optimizer: Any, kind: str = "") -> Life:
        self._count += 1
        life = Life(f"optimizer{self._count}", kind or type(optimizer).__name__, weakref.ref(optimizer))
        life.before = self._predecessor(life)
        self._lives[id(optimizer)] = life
        self.refresh()
        return life

    def _predecessor(self, life: Life) -> Life | None:
        """The last one that was met of the same kind and with the same parameters; it may be gone soon."""
        mine = life.parameters()
        known = [self.owners(p) for p in mine]
        for other in reversed(known[0] if known else []):
            same = other.type == life.type and other.steps and other.size == len(mine)
            if same and all(any(o is other for o in owners) for owners in known):
                return other
        return None

    def inside(self, optimizer: Any) -> Life | None:
        """The optimizer that an unknown one only wraps: it holds it, and both move the same parameters."""
        held = (value for value in vars(optimizer).values() if isinstance(value, torch.optim.Optimizer))
        for other in held:
            life = self.get(other)
            if life is not None and parameters_of(optimizer) == parameters_of(other):
                return life
        return None

    def alive(self) -> list[Life]:
        return [life for life in self._lives.values() if life.reference() is not None and not life.wrapper]

    def refresh(self) -> None:
        """Find out anew whose parameters are whose."""
        owners: dict[int, tuple[weakref.ref[Tensor], list[Life]]] = {}
        for life in self.alive():
            life.succeed()
            parameters = life.parameters()
            life.size = len(parameters)
            for parameter in parameters:
                owners.setdefault(id(parameter), (weakref.ref(parameter), []))[1].append(life)
        self._owners = owners

    def owners(self, parameter: Tensor) -> list[Life]:
        known = self._owners.get(id(parameter))
        return known[1] if known is not None and known[0]() is parameter else []

    def touched(self, parameters: Iterable[Tensor]) -> list[Life]:
        """The optimizers of any of these parameters, in the order they were met."""
        found = {id(life) for parameter in parameters for life in self.owners(parameter)}
        return [life for life in self.alive() if id(life) in found]


def parameters_of(optimizer: Any) -> set[int]:
    """Their ids."""
    return {id(p) for group in optimizer.param_groups for p in group["params"]}
