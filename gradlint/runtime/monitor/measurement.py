"""Norm, mean and largest value of many gradients at once: batched on their devices, copied to the host together."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from gradlint.runtime.layers import readable
from gradlint.runtime.monitor.data import ALL, Layer
from gradlint.runtime.norms import numbers_of

_HALVES = (torch.float16, torch.bfloat16)


@dataclass(slots=True)
class Numbers:
    """Those of small tensors: on their devices, until the transfer is open that they were put into."""

    tensors: list[Tensor]
    values: list[float] = field(default_factory=list)

    @property
    def first(self) -> float | None:
        """None where there was nothing to bring."""
        return self.values[0] if self.values else None


class Transfer:
    """Small tensors on several devices, brought to the host by one copy for each device."""

    def __init__(self) -> None:
        self._waiting: list[Numbers] = []

    def put(self, *tensors: Tensor | None) -> Numbers:
        numbers = Numbers([tensor.detach().reshape(-1) for tensor in tensors if tensor is not None])
        self._waiting.append(numbers)
        return numbers

    @torch.no_grad()
    def open(self) -> None:
        """From here on all that was put in has values."""
        flat = [tensor for numbers in self._waiting for tensor in numbers.tensors]
        parts: list[list[float]] = [[] for _ in flat]
        for device in {tensor.device for tensor in flat}:
            there = [i for i, tensor in enumerate(flat) if tensor.device == device]
            # `cat` promotes to the widest type among them, so that double gradients keep their range.
            copied = iter(torch.cat([_wide(flat[i]) for i in there]).tolist())
            for i in there:
                parts[i] = [float(number) for number in islice(copied, flat[i].numel())]
        arrived = iter(parts)
        for numbers in self._waiting:
            numbers.values = [number for part in islice(arrived, len(numbers.tensors)) for number in part]


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


@dataclass(slots=True)
class _Group:
    """Gradients of one device and type, measured."""

    names: list[str]
    elements: list[int]
    axes: list[int]
    norms: Numbers
    lowest: Numbers
    highest: Numbers
    sums: Numbers
    #: none where the weights were measured before
    weights: Numbers


@dataclass(slots=True)
class Measurement:
    """Gradients that were measured, but not yet copied to the host."""

    groups: list[_Group]
    order: dict[str, int]
    #: what the gradients were multiplied by; none where they were true
    scale: Numbers
    #: norms of the weights, by name, where they are known
    weights: Mapping[str, float]

    def layers(self, rates: Mapping[str, float] | None = None) -> tuple[Layer, ...]:
        """The layers in the order of the model, in true units; `rates` tell how far a step moves some of them."""
        scale = self.scale.first
        factor = 1.0 if scale is None else scale
        found = [layer for group in self.groups for layer in _layers(group, factor, rates or {}, self.weights)]
        return tuple(sorted(found, key=lambda layer: self.order[layer.name]))


def total(norms: Iterable[float]) -> float:
    return math.sqrt(math.fsum(norm * norm for norm in norms))


def _layers(group: _Group, scale: float, rates: Mapping[str, float], known: Mapping[str, float]) -> Iterator[Layer]:
    weights = group.weights.values or [known[name] for name in group.names]
    columns = (
        group.names, group.elements, group.axes, group.norms.values, group.lowest.values, group.highest.values,
        group.sums.values, weights,
    )  # fmt: skip
    for name, elements, axes, size, low, high, total_, weight in zip(*columns, strict=True):
        norm, mean = size / scale, total_ / scale / elements
        variance = norm * norm / elements - mean * mean
        # A constant gradient has a variance of 0 but for rounding.
        std = variance if math.isnan(variance) else math.sqrt(max(0.0, variance))
        largest = math.nan if math.isnan(low) or math.isnan(high) else max(abs(low), abs(high)) / scale
        ratio = norm / weight if weight else None
        yield Layer(name, norm, mean, std, largest, ratio, elements, axes, weight, rates.get(name))


@torch.no_grad()
def measure(
    entries: Iterable[tuple[str, Tensor]],
    transfer: Transfer,
    scale: Tensor | None = None,
    weights: Mapping[str, float] | None = None,
) -> Measurement:
    """Measures the gradients of these parameters where they are; nothing waits for a device. The norms of the weights
    are measured, too, if they are not known for all of them."""
    groups: dict[tuple[torch.device, torch.dtype], list[tuple[str, Tensor, Tensor]]] = defaultdict(list)
    order: dict[str, int] = {}
    for name, parameter in entries:
        gradient = parameter.grad
        if gradient is None:
            continue
        values = numbers_of(gradient)
        if values.numel():
            order[name] = len(order)
            groups[values.device, values.dtype].append((name, parameter, values))
    known = weights if weights and order.keys() <= weights.keys() else {}
    measured = [_measure_group(group, transfer, weighed=bool(known)) for group in groups.values()]
    return Measurement(measured, order, transfer.put(scale), known)


def _measure_group(group: list[tuple[str, Tensor, Tensor]], transfer: Transfer, *, weighed: bool) -> _Group:
    gradients = [values for _, _, values in group]
    # What a sparse gradient or a shard leaves out does not count: sizes are those of the gradient's own shape.
    elements = [_size(parameter) for _, parameter, _ in group]
    sizes, lowest, highest, sums = (transfer.put(torch.stack(tuple(found))) for found in _numbers(gradients))
    return _Group(
        [name for name, _, _ in group],
        elements,
        [parameter.dim() for _, parameter, _ in group],
        sizes,
        lowest,
        highest,
        sums,
        # A weight may have another type, or be elsewhere, than its gradient.
        transfer.put(*(() if weighed else weight_norms([numbers_of(parameter) for _, parameter, _ in group]))),
    )


def _numbers(gradients: Sequence[Tensor]) -> tuple[Sequence[Tensor], ...]:
    """Norms, both extremes and sums of each."""
    if gradients[0].device.type != "cpu":
        return norms(gradients), *extremes(gradients), [_sum(values) for values in gradients]
    # One after the other: what the first question has brought into the cache, the others find there.
    found = [(norms([values])[0], *(x[0] for x in extremes([values])), _sum(values)) for values in gradients]
    return tuple(zip(*found, strict=True))


def _size(parameter: Tensor) -> int:
    local: Tensor = parameter.to_local() if hasattr(parameter, "to_local") else parameter
    return local.numel() * (2 if local.is_complex() else 1)


def norms(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """2-norms; of half-precision tensors in float32, in which they do not overflow."""
    if tensors[0].dtype in _HALVES:
        return [torch.linalg.vector_norm(tensor, dtype=torch.float32) for tensor in tensors]
    return torch._foreach_norm(list(tensors), 2)


def weight_norms(weights: Sequence[Tensor]) -> Sequence[Tensor]:
    """The norms of weights whose gradients are of one kind, in one tensor if so are they."""
    if len({(weight.device, weight.dtype) for weight in weights}) == 1:
        return [torch.stack(tuple(norms(weights)))]
    return [norms([weight])[0] for weight in weights]


def extremes(tensors: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """Two numbers for each, of which the larger absolute value is its largest; both NaN where there is one."""
    if tensors[0].device.type == "cpu":  # the infinity norm is slow there: 17 times the time of aminmax
        # Not every torch has it for half precision on a CPU.
        pairs = [torch.aminmax(tensor.float() if tensor.dtype in _HALVES else tensor) for tensor in tensors]
        return [pair.min for pair in pairs], [pair.max for pair in pairs]
    tops = torch._foreach_norm(list(tensors), math.inf)
    return tops, tops


def _sum(values: Tensor) -> Tensor:
    return values.sum(dtype=torch.float32) if values.dtype in _HALVES else values.sum()


@dataclass(frozen=True, slots=True)
class Norms:
    """2-norms of gradients that may still be on their devices."""

    #: whose they are; empty where it is the one of a clip of all parameters
    names: list[str] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    #: what the gradients were multiplied by as they were measured; None where they were true
    scale: Tensor | None = None


@torch.no_grad()
def gradient_norms(entries: Iterable[tuple[str, Tensor]], scale: Tensor | None = None) -> Norms:
    """Only these: one fused norm and one tensor for each device and type."""
    groups: dict[tuple[torch.device, torch.dtype], tuple[list[str], list[Tensor]]] = {}
    for name, parameter in entries:
        values = parameter.grad
        if values is None:
            continue
        if type(values) is not Tensor or values.layout is not torch.strided or values.is_complex():
            values = numbers_of(values)
        if values.numel():
            names, gradients = groups.setdefault((values.device, values.dtype), ([], []))
            names.append(name)
            gradients.append(values)
    found = [torch.stack(tuple(norms(gradients))) for _, gradients in groups.values()]
    return Norms([name for names, _ in groups.values() for name in names], found, scale)


# -- whose gradients ---------------------------------------------------------------------------------------------------


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
        """By name, what one step moves them by for each unit of gradient; only SGD's step is as large as that."""
        if not isinstance(self.optimizer, SGD):
            return {}
        # Momentum adds up to this many gradients of one direction.
        rates = {
            id(p): float(group["lr"]) / max(1e-3, 1 - float(group.get("momentum", 0.0)))
            for group in self.optimizer.param_groups
            for p in group["params"]
        }
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


# -- what gradients are multiplied by ----------------------------------------------------------------------------------


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
    scale: Tensor | None = None
    if optimizer is not None and "grad_scale" in vars(optimizer):
        # Inside scaler.step: a fused optimizer divides by this itself.
        scale = vars(optimizer)["grad_scale"]
    elif scaler is not None and stage(scaler, optimizer) == "READY":
        scale = current_scale(scaler)
    # The scaler changes its scale in place, at the next update().
    return None if scale is None else scale.detach().clone()
