"""Distributed scripts that were written for NCCL: gloo does the same on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from gradlint.runtime.redirect.accelerator import Landing, replace

Function = Callable[..., Any]


#: called with a module's name, and what to do once the script has imported it
WhenImported = Callable[[str, Callable[[Any], None]], None]
_FSDP = "torch.distributed.fsdp.fully_sharded_data_parallel"


def at_once(name: str, patch: Callable[[Any], None]) -> None:
    """For who has no way of being told: only what is loaded already."""
    if name in sys.modules:
        patch(sys.modules[name])


def install(landing: Landing, when_imported: WhenImported) -> None:
    if not dist.is_available():
        return
    from torch.nn.parallel import DistributedDataParallel

    _everywhere("init_process_group", lambda original: _beginning(landing, original))
    _everywhere("new_group", lambda original: _grouping(landing, original))
    _everywhere("barrier", _waiting)
    _everywhere("all_reduce", _reducing)
    replace(DistributedDataParallel, "__init__", lambda original: _wrapping(landing, original))
    when_imported(_FSDP, lambda module: replace(module.FullyShardedDataParallel, "__init__", _sharding))
    mesh = sys.modules.get("torch.distributed.device_mesh")
    for owner in (dist, mesh):
        replace(owner, "init_device_mesh", lambda original: _meshing(landing, original))


def _everywhere(name: str, make: Callable[[Function], Function]) -> None:
    """Under both of its addresses."""
    original = getattr(dist, name)
    replace(dist, name, make)
    core = dist.distributed_c10d
    if getattr(core, name, None) is original:
        setattr(core, name, getattr(dist, name))


def _gloo(landing: Landing, backend: Any) -> Any:
    """`nccl`, and `cpu:gloo,cuda:nccl`."""
    if isinstance(backend, str) and "nccl" in backend.lower():
        landing.note("gloo connects the ranks in place of nccl")
        return "gloo"
    return backend


def _beginning(landing: Landing, original: Function) -> Function:
    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_id", None)
        return original(_gloo(landing, backend), *args, **kwargs)

    return init_process_group


def _grouping(landing: Landing, original: Function) -> Function:
    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        if timeout is not None:
            kwargs["timeout"] = timeout
        kwargs.pop("device_id", None)
        return original(ranks, *args, backend=_gloo(landing, backend), **kwargs)

    return new_group


def _waiting(original: Function) -> Function:
    def barrier(*args: Any, device_ids: Any = None, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    return barrier


def _reducing(original: Function) -> Function:
    """gloo has no average."""

    def all_reduce(tensor: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
        if op != dist.ReduceOp.AVG or async_op:
            return original(tensor, op=op, group=group, async_op=async_op)
        original(tensor, op=dist.ReduceOp.SUM, group=group)
        tensor.div_(dist.get_world_size(group))
        return None

    return all_reduce


def _wrapping(landing: Landing, original: Function) -> Function:
    def __init__(  # noqa: N807
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        if device_ids or output_device is not None:
            landing.told("cuda")
        original(self, module, None, None, *args, **kwargs)

    return __init__


def _sharding(original: Function) -> Function:
    """Without a device FSDP looks for an accelerator, and raises where there is none."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        kwargs["device_id"] = torch.device("cpu")
        original(self, *args, **kwargs)

    return __init__


def _meshing(landing: Landing, original: Function) -> Function:
    return lambda device_type, *args, **kwargs: original(str(landing.land(device_type)), *args, **kwargs)
