"""What kinds of distributed models there are, and what can be asked of each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from gradlint.runtime.recorder.lives import grad_of

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
