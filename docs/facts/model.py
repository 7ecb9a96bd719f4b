"""GL7: stacks that hardly learn, checkpoints, and loops that look at no gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from docs.facts.calls import Calls
from docs.facts.experiment import experiment, listed, outcome, row, warning
from docs.facts.lab import batches, found, loss_of, network
from gradlint.docs.facts import Row

DEPTH, WIDTH = 8, 32


def first_to_last(
    activation: nn.Module, *, normed: bool = False, residual: bool = False, kaiming: bool = False
) -> float:
    """Norm of the first layer's gradient / norm of the last layer's, with the weights that torch begins with."""
    torch.manual_seed(8)
    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)]
    for layer in layers if kaiming else ():
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    x = torch.randn(64, WIDTH)
    for layer in layers:
        inner = layer(x)
        if normed:
            inner = nn.functional.layer_norm(inner, (WIDTH,))
        inner = activation(inner)
        x = x + inner if residual else inner
    x.square().mean().backward()
    first, last = layers[0].weight.grad, layers[-1].weight.grad
    assert first is not None
    assert last is not None
    return float(first.norm() / last.norm())


@experiment("GL701", "Eight linear layers of width 32: norm of the first layer's gradient / norm of the last layer's.")
def deep_saturating_stack() -> Iterator[Row]:
    sigmoid, tanh = first_to_last(nn.Sigmoid()), first_to_last(nn.Tanh())
    yield row("sigmoid; ReLU in its place", sigmoid, first_to_last(nn.ReLU()))
    yield row("sigmoid; ReLU and `kaiming_normal_` weights", sigmoid, first_to_last(nn.ReLU(), kaiming=True))
    yield row("tanh; tanh with `LayerNorm` before it", tanh, first_to_last(nn.Tanh(), normed=True))
    yield row("tanh; tanh with residual connections", tanh, first_to_last(nn.Tanh(), residual=True))


@experiment("GL702", "`checkpoint(block, x)`, which means use_reentrant=True today, and `use_reentrant=False`.")
def implicit_use_reentrant() -> Iterator[Row]:
    def implicit(block: nn.Module, x: Tensor) -> Tensor:
        return checkpoint(block, x)  # type: ignore[no-any-return]  # checkpoint has no types

    def explicit(block: nn.Module, x: Tensor) -> Tensor:
        return checkpoint(block, x, use_reentrant=False)  # type: ignore[no-any-return]  # checkpoint has no types

    ways: tuple[Callable[[nn.Module, Tensor], Tensor], ...] = (implicit, explicit)

    def learned(run: Callable[[nn.Module, Tensor], Tensor]) -> str:
        """Of a network whose first block is checkpointed: its input, the data, needs no gradient."""
        block, head = nn.Linear(8, 8), nn.Linear(8, 1)
        head(run(block, torch.ones(1, 8))).sum().backward()
        return found(nn.Sequential(block, head))

    def asked(run: Callable[[nn.Module, Tensor], Tensor]) -> str:
        block, x = nn.Linear(8, 8), torch.ones(1, 8, requires_grad=True)
        return outcome(lambda: torch.autograd.grad(run(block, x).sum(), block.weight))

    x = torch.ones(1, 8, requires_grad=True)
    yield row("what torch says", *(warning(partial(run, nn.Linear(8, 8), x)) for run in ways))
    yield row("parameters with a gradient, if the first block of two is checkpointed", *map(learned, ways))
    yield row("`torch.autograd.grad` through it", *map(asked, ways))


@experiment("GL703", "Four batches, the third with targets 100 times too large, clipped with max_norm=1.0.")
def unmonitored_gradients() -> Iterator[Row]:
    def run(logged: bool) -> tuple[list[float], int]:
        norms, calls = [], Calls()
        for i, (x, y) in enumerate(batches(4)):
            model = network()
            loss_of(model, (x, 100 * y if i == 2 else y)).backward()
            with calls:
                total = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if logged:
                    norms.append(total.item())
        return norms, sum(calls.seen.values()) // 4

    (_, bad), (norms, good) = run(logged=False), run(logged=True)
    yield row("norms in the log", "none", listed(norms))
    yield row("operations of the clip and the log, per update", bad, good)
