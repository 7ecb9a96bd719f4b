"""What the gradients of an optimizer are multiplied by at this moment, read from its gradient scaler."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


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
