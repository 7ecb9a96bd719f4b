"""Small training runs for the tests of the monitor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad, clip_grad_norm_

_ORIGINAL = clip_grad.clip_grad_value_


def is_watched() -> bool:
    """Some monitor's function stands in the place of torch's."""
    return clip_grad.clip_grad_value_ is not _ORIGINAL


def network(depth: int = 2, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = [nn.Linear(4, 8)]
    for _ in range(depth - 1):
        layers += [nn.Tanh(), nn.Linear(8, 8)]
    return nn.Sequential(*layers, nn.Tanh(), nn.Linear(8, 1))


def backward(loss: Any) -> None:
    loss.backward()


def loss_of(model: nn.Module, batch: Tensor) -> Tensor:
    return nn.functional.mse_loss(model(batch), batch.sum(1, keepdim=True))


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    steps: int = 12,
    *,
    max_norm: float | None = None,
    scaler: Any = None,
    unscale: bool = True,
    factor: float = 1.0,
    told: Callable[[Tensor], None] = lambda loss: None,
    after_backward: Callable[[int], None] = lambda step: None,
) -> None:
    """A plain loop with a clip and a scaler where they are wanted; `after_backward` may spoil the gradients."""
    batches = torch.Generator().manual_seed(1)
    for step in range(1, steps + 1):
        loss = loss_of(model, torch.randn(16, 4, generator=batches)) * factor
        told(loss)
        optimizer.zero_grad()
        backward(loss if scaler is None else scaler.scale(loss))
        after_backward(step)
        if scaler is not None and unscale:
            scaler.unscale_(optimizer)
        if max_norm is not None:
            clip_grad_norm_(model.parameters(), max_norm)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()


def weights(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    """Bit for bit."""
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def total_norm(model: nn.Module) -> float:
    return float(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm())
