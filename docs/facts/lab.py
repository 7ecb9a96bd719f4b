"""What the experiments work with: small models, data that never changes, and ways to measure gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

#: micro-batches in a window
N = 4

Batch = tuple[Tensor, Tensor]


def network() -> nn.Sequential:
    """A small regression network, the same each time."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


def batches(count: int, size: int = 8, spread: float = 1.0) -> list[Batch]:
    """Batches of one regression task; the larger the spread of the targets, the larger the gradients."""
    source = torch.Generator().manual_seed(2)
    truth = torch.randn(8, 1, generator=source)
    inputs = [torch.randn(size, 8, generator=source) for _ in range(count)]
    noise = [torch.randn(size, 1, generator=source) for _ in range(count)]
    return [(x, spread * (x @ truth + 0.3 * e)) for x, e in zip(inputs, noise, strict=True)]


def whole(parts: list[Batch]) -> Batch:
    """The large batch that these micro-batches are pieces of."""
    return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])


def loss_of(model: nn.Module, batch: Batch) -> Tensor:
    x, y = batch
    return nn.functional.mse_loss(model(x), y)


def gradient(model: nn.Module) -> Tensor:
    """All gradients as one vector; zeros where there are none."""
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in model.parameters()])


def weights(model: nn.Module) -> Tensor:
    """All weights as one vector."""
    return torch.cat([p.detach().flatten().clone() for p in model.parameters()])


def gradient_of(model: nn.Module, batch: Batch) -> Tensor:
    """The gradient of one batch, on a model that is left without gradients."""
    model.zero_grad()
    loss_of(model, batch).backward()
    found = gradient(model).clone()
    model.zero_grad()
    return found


def found(model: nn.Module) -> str:
    """How many of the parameters have a gradient."""
    parameters = list(model.parameters())
    return f"{sum(p.grad is not None for p in parameters)} of {len(parameters)}"


def update(model: nn.Module, action: Callable[[], object]) -> Tensor:
    """How the action moves the weights, against the gradient: SGD with lr=1 moves them by the gradient it uses."""
    before = weights(model)
    action()
    return before - weights(model)


def norm(vector: Tensor) -> float:
    return float(vector.norm())


def cosine(one: Tensor, other: Tensor) -> float:
    return nn.functional.cosine_similarity(one.double(), other.double(), dim=0).item()


def clip(model: nn.Module, max_norm: float = 1.0) -> float:
    """Clips, and gives the norm that clip_grad_norm_ returns."""
    return float(nn.utils.clip_grad_norm_(model.parameters(), max_norm))


def sgd(model: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=1.0)


def mean_loss(model: nn.Module, data: Iterable[Batch]) -> float:
    with torch.no_grad():
        losses = [loss_of(model, batch).item() for batch in data]
    return sum(losses) / len(losses)


class Axes(nn.Module):
    """One weight for each micro-batch: the gradient shows by itself how much each micro-batch counts."""

    def __init__(self, count: int = N) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(count))

    def loss(self, micro_batch: int, slope: float = 1.0) -> Tensor:
        """Its gradient is `slope` at the micro-batch's own weight, and 0 at all others."""
        return slope * self.weight[micro_batch]
