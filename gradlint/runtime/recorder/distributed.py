"""Watches models that are spread over processes: what they exchange in a backward, and when they do not."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradlint.runtime.recorder import clips
from gradlint.runtime.recorder.lives import Life, grad_of
from gradlint.runtime.recorder.patches import Request, afterwards
from gradlint.runtime.recording import Met, Synced

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Call, Recorder


DDP, FSDP, FULLY_SHARD = "DistributedDataParallel", "FullyShardedDataParallel", "fully_shard"


def wrap_of(module: Any) -> str:
    """How a module is spread over processes, or ""; FSDP is not imported for the question."""
    if isinstance(module, torch.nn.parallel.DistributedDataParallel):
        return DDP
    fsdp: Any = sys.modules.get("torch.distributed.fsdp")
    if fsdp is None:
        return ""
    first, second = getattr(fsdp, FSDP, None), getattr(fsdp, "FSDPModule", None)
    if first is not None and isinstance(module, first):
        return FSDP
    return FULLY_SHARD if second is not None and isinstance(module, second) else ""


def would_sync(module: Any) -> bool | None:
    """Would it exchange gradients as things are?"""
    kind = wrap_of(module)
    if kind == DDP:
        return bool(module.require_backward_grad_sync)
    if kind == FSDP:
        return bool(getattr(module, "_sync_gradients", True))
    return next((bool(group.reduce_grads) for group in _groups(module)), None)


def hidden(module: Any) -> list[Tensor]:
    """Gradients that a `fully_shard` model keeps to itself until it is allowed to exchange them."""
    if wrap_of(module) != FULLY_SHARD:
        return []
    return [grad for part in module.modules() for group in _groups(part) for grad in _unsharded(group)]


def _groups(module: Any) -> list[Any]:
    state = module._get_fsdp_state() if hasattr(module, "_get_fsdp_state") else None
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:  # torch < 2.9 has one
        groups = [getattr(state, "_fsdp_param_group", None)]
    return [group for group in groups if group is not None]


def _unsharded(group: Any) -> Iterator[Tensor]:
    for parameter in getattr(group, "fsdp_params", ()):
        kept = getattr(parameter, "unsharded_accumulated_grad", None)
        whole = getattr(parameter, "_unsharded_param", None)
        fresh = grad_of(whole) if isinstance(whole, Tensor) else None
        yield from (grad for grad in (kept, fresh) if grad is not None)


# -- what they exchange ------------------------------------------------------------------------------------------------


#: collectives that average or sum, and those that FSDP reduces its gradients with
_REDUCING = ("all_reduce", "all_reduce_coalesced", "reduce")
_SCATTERING = ("reduce_scatter_single", "reduce_scatter_tensor", "_reduce_scatter_base", "reduce_scatter")
_FSDP_FOLDERS = tuple(os.path.join("torch", "distributed", name) for name in ("fsdp", "_composable"))


@dataclass(slots=True)
class Shared:
    """What a backward has to say about exchanges between ranks."""

    fields: dict[str, Any] = field(default_factory=dict)
    synced: list[tuple[str, str, int]] = field(default_factory=list)
    touched: list[Life] = field(default_factory=list)


@dataclass(slots=True)
class _Spread:
    """A distributed model."""

    id: str
    wrap: str
    forward_sync: bool | None = None
    #: when it was last called, counted over all such models
    forwards: int = 0
    #: the reducer that our hook sits in; DDP makes a new one when it is copied
    reducer: Any = None
    #: a hook of the user's own
    hook: tuple[Any, Callable[..., Any]] | None = None
    counted: bool = True


class Distributed:
    """Which models are spread, and what they exchanged in the backward that is going on."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._spread: dict[str, _Spread] = {}
        self._forwards = 0
        #: not by thread: on CUDA a backward runs its hooks in threads of its own
        self._running: dict[str, Any] | None = None

    def install(self) -> None:
        if not torch.distributed.is_available():
            return
        patches, c10d = self.recorder.patches, torch.distributed.distributed_c10d
        patches.watch_everywhere(c10d, "init_process_group", afterwards("the process group", _group_made))
        for name in (*_REDUCING, *_SCATTERING):
            patches.watch_everywhere(c10d, name, functools.partial(_collective, name))
        ddp = torch.nn.parallel.DistributedDataParallel
        patches.watch(ddp, "__init__", afterwards("a distributed model", _ddp_made))
        patches.watch(ddp, "register_comm_hook", _hook_registered)
        patches.watch(ddp, "_register_builtin_comm_hook", _builtin_registered)
        fsdp = "torch.distributed.fsdp.fully_sharded_data_parallel"
        self.recorder.imports.watch(fsdp, FSDP, "clip_grad_norm_", _fsdp_clip)
        self.learn_rank()

    def learn_rank(self) -> None:
        """The process group may be there now."""
        distributed: Any = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            rank, world = distributed.get_rank(), distributed.get_world_size()
            if (rank, world) != (self.recorder.rank, self.recorder.world):
                self.recorder.rank, self.recorder.world = rank, world
                self.recorder.on_news()

    # -- models ----------------------------------------------------------------------------------------------------

    def meet(self, module: Any) -> _Spread:
        name = self.recorder.models.get(module)
        if name not in self._spread:
            self.learn_rank()
            name = name or self.recorder.models.give(module)
            self._spread[name] = _Spread(name, wrap_of(module))
            self.recorder.lives.refresh()
            touched = self.recorder.lives.touched(module.parameters())
            count = sum(1 for _ in module.parameters())
            self.recorder.emit(Met, id=name, role="model", type=wrap_of(module), parameters=count, touched=touched)
        return self._spread[name]

    def forward_begins(self, module: Any) -> None:
        if wrap_of(module) == DDP or not self.recorder.inside("forward"):  # an FSDP root, not the units inside of it
            spread = self.meet(module)
            spread.forward_sync = would_sync(module)
            self._forwards += 1
            spread.forwards = self._forwards
            if spread.wrap == DDP:
                self._put_hook(spread, module)

    def forward_sync(self, module: Any) -> bool | None:
        return next((would_sync(part) for part in module.modules() if wrap_of(part)), None)

    def wrap_of_parameters(self, parameters: list[Tensor]) -> str:
        """How the model of these parameters is spread, or ""."""
        handed = {id(p) for p in parameters}
        for name, module in self.recorder.models.alive():
            spread = self._spread.get(name)
            if spread is not None and any(id(p) in handed for p in module.parameters()):
                return spread.wrap
        return ""

    def is_sharded(self, parameters: list[Tensor]) -> bool:
        return self.wrap_of_parameters(parameters) in (FSDP, FULLY_SHARD)

    # -- backward --------------------------------------------------------------------------------------------------

    def backward_begins(self, call: Call) -> None:
        self.learn_rank()
        models = [(name, module) for name, module in self.recorder.models.alive() if name in self._spread]
        call.about["exchanges"] = []
        call.about["flags"] = {name: would_sync(module) for name, module in models}
        call.about["hidden"] = {name: [(g, g._version) for g in hidden(module)] for name, module in models}
        self._running = call.about

    def fed_out_of_sight(self, about: dict[str, Any]) -> list[tuple[Life, list[Tensor]]]:
        """Optimizers whose model keeps the gradients of this backward to itself, and those gradients."""
        found: list[tuple[Life, list[Tensor]]] = []
        for name, module in self.recorder.models.alive():
            now = hidden(module) if name in self._spread else []
            was = about.get("hidden", {}).get(name, [])
            same = len(now) == len(was) and all(a is b and a._version == v for a, (b, v) in zip(now, was, strict=True))
            if now and not same:
                found.extend((life, now) for life in self.recorder.lives.touched(module.parameters()))
        return found

    def backward_over(self) -> None:
        self._running = None

    def exchanged(self, how: str, model: str, elements: int) -> None:
        if self._running is not None:
            self._running["exchanges"].append((how, model, elements))

    def backward_ends(self, about: dict[str, Any], touched: list[Life]) -> Shared:
        """What the backward exchanged; marks the gradients it touched as local or reduced."""
        exchanges: list[tuple[str, str, int]] = about.get("exchanges", [])
        found: dict[str, Any] = {}
        for life in touched:
            spread = self._model_of(life)
            if spread is None:
                life.reduced = False if self.recorder.world > 1 else None
                continue
            own = [e for e in exchanges if e[1] in ("", spread.id)]
            life.reduced = bool(own) if spread.counted else None
            found = found or {
                "model": spread.id,
                "wrap": spread.wrap,
                "forward_sync": spread.forward_sync,
                "backward_sync": about.get("flags", {}).get(spread.id),
                "syncs": len(own),
            }
        model = found.get("model", "")
        synced = [(how, name or model, elements) for how, name, elements in exchanges]
        return Shared(found, synced, touched)

    def _model_of(self, life: Life) -> _Spread | None:
        """The distributed model that the parameters of an optimizer were last used in."""
        mine = {id(p) for p in life.parameters()}
        found: list[_Spread] = []
        for name, module in self.recorder.models.alive():
            spread = self._spread.get(name)
            if spread is not None and any(id(p) in mine for p in module.parameters()):
                found.append(spread)
        return max(found, key=lambda spread: spread.forwards, default=None)

    def tell(self, shared: Shared, places: Any) -> None:
        for how, model, elements in shared.synced:
            self.recorder.emit(Synced, places, shared.touched, how=how, model=model, elements=elements)

    # -- DDP's hook ------------------------------------------------------------------------------------------------

    def _put_hook(self, spread: _Spread, module: Any) -> None:
        """Patching all_reduce sees nothing of what DDP does in C++; a hook of its own does."""
        reducer = getattr(module, "reducer", None)
        if reducer is None or spread.reducer is reducer:
            return
        spread.reducer = reducer
        if getattr(module, "mixed_precision", None) is not None or getattr(module, "_use_python_reducer", False):
            spread.counted = False  # it has a hook of its own already
            self.recorder.note("the exchanges of a DistributedDataParallel with a reducer of its own are not counted")
            return
        distributed: Any = torch.distributed
        distributed._register_comm_hook(reducer, (self, spread, module), _average)

    def hook_given(self, module: Any, state: Any, hook: Callable[..., Any]) -> bool:
        """The user registers a hook after ours is in: ours calls it. False if ours is not in yet."""
        spread = self._spread.get(self.recorder.models.get(module))
        if spread is None or spread.reducer is None or spread.reducer is not module.reducer or spread.hook is not None:
            return False
        module._check_comm_hook(hook)
        spread.hook = (state, hook)
        return True

    def hook_taken(self, module: Any) -> None:
        """The user's hook is in, with ours round it."""
        self.meet(module).reducer = module.reducer


def _average(state: Any, bucket: Any) -> Any:
    """What DDP does without a hook, number for number; or what the user's hook does."""
    watch, spread, module = state
    buffer = bucket.buffer()
    watch.exchanged("all-reduce", spread.id, buffer.numel())
    if spread.hook is not None:
        return spread.hook[1](spread.hook[0], bucket)
    group = module.process_group
    if buffer.layout is torch.strided:
        buffer.mul_(1.0 / group.size())
    else:
        buffer.div_(group.size())
    return group.allreduce([buffer]).get_future().then(lambda future: future.value()[0])


def _group_made(request: Request) -> None:
    request.recorder.distributed.learn_rank()


def _ddp_made(request: Request) -> None:
    request.recorder.distributed.meet(request.owner)


def _hook_registered(request: Request) -> Any:
    recorder, module = request.recorder, request.owner
    state, hook = request.argument(1, "state"), request.argument(2, "hook")
    watch = recorder.distributed
    if not callable(hook):
        return request.carry_out()
    if watch.hook_given(module, state, hook):
        return None
    name = recorder.models.get(module)

    @functools.wraps(hook)
    def counted(state: Any, bucket: Any) -> Any:
        watch.exchanged("all-reduce", name, bucket.buffer().numel())
        return hook(state, bucket)

    result = request.original(module, state, counted)
    with recorder.guard("a communication hook"):
        watch.hook_taken(module)
    return result


def _builtin_registered(request: Request) -> Any:
    """The hooks that torch has in C++ cannot be counted; their twins in Python can."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    distributed: Any = torch.distributed
    kinds = distributed.BuiltinCommHookType
    twins: dict[Any, Any] = {kinds.ALLREDUCE: default_hooks.allreduce_hook,
                             kinds.FP16_COMPRESS: default_hooks.fp16_compress_hook}  # fmt: skip
    kind = request.argument(1, "comm_hook_type")
    if kind not in twins:
        return request.carry_out()
    return request.owner.register_comm_hook(request.owner.process_group, twins[kind])


def _collective(name: str, request: Request) -> Any:
    recorder = request.recorder
    with recorder.guard("a collective"):
        tensors = [t for value in (*request.args, *request.kwargs.values()) for t in _tensors(value)]
        if _called_by_fsdp():
            how = "reduce-scatter" if name in _SCATTERING else "all-reduce"
            recorder.distributed.exchanged(how, "", max((t.numel() for t in tensors), default=0))
        else:
            recorder.gradients.collective(tensors)
    return request.carry_out()


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [t for t in value if isinstance(t, Tensor)] if isinstance(value, list | tuple) else []


def _called_by_fsdp() -> bool:
    frame = sys._getframe(2)
    for _ in range(6):
        if any(folder in frame.f_code.co_filename for folder in _FSDP_FOLDERS):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


def _fsdp_clip(request: Request) -> Any:
    if request.recorder.inside("clip"):
        return request.carry_out()
    parameters = list(request.owner.parameters())
    return clips.watch(request, clips.Kind(f"{FSDP}.clip_grad_norm_", wrap=FSDP), parameters, parameters)
