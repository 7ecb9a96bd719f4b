"""The parameters that an optimizer trains, by the names their author gave them, and their scale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from gradlint.runtime.layers import readable
from gradlint.runtime.monitor.data import ALL, Layer

#: samples after which the norms of the weights are measured anew
WEIGHED = 10
#: wrappers that hold the author's model, and the attribute that it is in
_WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "_FabricModule": "_forward_module",
}


def author_model(model: nn.Module) -> nn.Module:
    """The model inside DDP, DataParallel, torch.compile and Fabric."""
    while (attribute := _WRAPPERS.get(type(model).__name__)) and isinstance(
        inner := getattr(model, attribute, None), nn.Module
    ):
        model = inner
    return model


def torch_optimizer(optimizer: object) -> Optimizer:
    """The torch optimizer inside the wrappers of Accelerate, Fabric and DeepSpeed."""
    inner: Any = optimizer
    # The innermost one is the one that scalers know; the wrappers are Optimizers, too, but only by class.
    for _ in range(8):
        if not isinstance(further := getattr(inner, "optimizer", None), Optimizer):
            break
        inner = further
    if not isinstance(inner, Optimizer):
        raise TypeError(f"optimizer must be a torch.optim.Optimizer, not {type(optimizer).__name__}")
    return inner


def checked_model(model: object) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    return model


def trained_by(optimizer: Optimizer) -> Iterator[tuple[str, Tensor]]:
    """The optimizer's parameters, each once, with a name for those that no model names."""
    seen: set[int] = set()
    for g, group in enumerate(optimizer.param_groups):
        for i, parameter in enumerate(group["params"]):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield f"param_groups[{g}][{i}]", parameter


def update_rates(optimizer: Optimizer) -> dict[int, float]:
    """By parameter, what one step moves it by for each unit of its gradient; only SGD's step is as large as that."""
    if not isinstance(optimizer, SGD):
        return {}
    # Momentum adds up to this many gradients of one direction.
    return {
        id(p): float(group["lr"]) / max(1e-3, 1 - float(group.get("momentum", 0.0)))
        for group in optimizer.param_groups
        for p in group["params"]
    }


class Roster:
    """The parameters that are watched, in the order of the model; renewed when the optimizer gets more of them."""

    def __init__(self, model: nn.Module, optimizer: Optimizer | None) -> None:
        self.model = author_model(model)
        self.optimizer = optimizer
        self.entries: list[tuple[str, Tensor]] = []
        self.members: frozenset[int] = frozenset()
        #: norms of the weights, by name; none if they are to be measured anew
        self.weights: dict[str, float] = {}
        self._held: list[int] | None = None
        self._samples = 0

    def refresh(self) -> None:
        groups = [] if self.optimizer is None else self.optimizer.param_groups
        held = [id(p) for group in groups for p in group["params"]]
        if held != self._held:
            self._held = held
            self._read()

    def _read(self) -> None:
        named = {id(p): (readable(name), p) for name, p in self.model.named_parameters()}
        if self.optimizer is None:
            self.entries = list(named.values())
        else:
            trained = {id(p): (name, p) for name, p in trained_by(self.optimizer)}
            ours = [entry for identity, entry in named.items() if identity in trained]
            self.entries = ours + [entry for identity, entry in trained.items() if identity not in named]
        self.members = frozenset(id(p) for _, p in self.entries)
        self.weights = {}

    def remember(self, layers: Iterable[Layer]) -> None:
        """Weights change slowly, and reading them all takes as long as reading the gradients."""
        self._samples += 1
        due = self._samples % WEIGHED == 0
        self.weights = {} if due else {layer.name: layer.weight for layer in layers if layer.weight is not None}

    @property
    def elements(self) -> int:
        return sum(p.numel() for _, p in self.entries)

    @property
    def missing(self) -> tuple[str, ...]:
        """Those that want a gradient and have none."""
        return tuple(name for name, p in self.entries if p.requires_grad and p.grad is None and p.numel())

    @property
    def names(self) -> dict[int, str]:
        """By identity."""
        return {id(p): name for name, p in self.entries}

    def rates(self) -> dict[str, float]:
        """How far a step moves them, by name, where that is known."""
        if self.optimizer is None or not (rates := update_rates(self.optimizer)):
            return {}
        return {name: rates[id(p)] for name, p in self.entries if id(p) in rates}

    def share(self, parameters: Iterable[Tensor]) -> str:
        """`all parameters`, `12 of 30 parameters`: how many of ours these are."""
        held = len(self.members & {id(p) for p in parameters})
        return ALL if held == len(self.members) else f"{held} of {len(self.members)} parameters"


def sharded(model: nn.Module) -> bool:
    """Whether each rank holds only its shard of the gradients: FSDP over several ranks."""
    if any(hasattr(p, "to_local") for p in model.parameters()):
        return True
    return any(
        type(module).__name__ == "FullyShardedDataParallel" and getattr(module, "world_size", 1) > 1
        for module in model.modules()
    )


def checked_scaler(scaler: Any) -> Any:
    """The GradScaler, also out of a wrapper that keeps it in `_scaler`; None where there is none, or it is disabled."""
    if scaler is None:
        return None
    inner = getattr(scaler, "_scaler", None)
    scaler = inner if inner is not None and hasattr(inner, "get_scale") else scaler
    if not hasattr(scaler, "get_scale"):
        raise TypeError(f"scaler must be a torch.amp.GradScaler or None, not {type(scaler).__name__}")
    return scaler if enabled(scaler) else None


def enabled(scaler: Any) -> bool:
    """A disabled scaler does nothing at all."""
    ask = getattr(scaler, "is_enabled", None)
    return bool(ask()) if callable(ask) else True


def current_scale(scaler: Any) -> Tensor | None:
    """The scale, where it is; None before the first loss was scaled."""
    scale = getattr(scaler, "_scale", None)
    if isinstance(scale, Tensor):
        return scale
    if scaler is None or hasattr(scaler, "_scale"):
        return None
    return torch.tensor(float(scaler.get_scale()))


def stage(scaler: Any, optimizer: Optimizer | None) -> str:
    """READY (not unscaled yet), UNSCALED or STEPPED; without an optimizer, of the one that has gone the furthest."""
    states = getattr(scaler, "_per_optimizer_states", None) or {}
    # `get`, because the dictionary would make an entry for an optimizer that it does not know.
    asked = list(states.values()) if optimizer is None else [states.get(id(optimizer))]
    names = [str(getattr(state["stage"], "name", "")) for state in asked if state]
    return next((name for name in ("STEPPED", "UNSCALED") if name in names), "READY")


def stored_scale(scaler: Any, optimizer: Optimizer | None) -> Tensor | None:
    """What `.grad` is multiplied by now; None where it holds true gradients."""
    if optimizer is not None and "grad_scale" in vars(optimizer):
        # Inside scaler.step: a fused optimizer divides by this itself.
        fused: Tensor | None = vars(optimizer)["grad_scale"]
        return fused
    if scaler is None or stage(scaler, optimizer) != "READY":
        return None
    return current_scale(scaler)
