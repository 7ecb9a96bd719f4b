"""GL6: losses that are inf or NaN, or that learn nothing, at values which really occur."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  # as everyone calls it

from docs.facts.experiment import at_most, experiment, listed, row, shown
from docs.facts.lab import norm
from gradlint.docs.facts import Row


def at(point: list[float], loss: Callable[[Tensor], Tensor], dtype: torch.dtype = torch.float32) -> tuple[str, str]:
    """Value and gradient of a loss at a point."""
    x = torch.tensor(point, dtype=dtype, requires_grad=True)
    value = loss(x)
    value.sum().backward()
    assert x.grad is not None
    return listed(value.flatten().tolist()), listed(x.grad.tolist())


def both(
    what: str, point: list[float], bad: Callable[[Tensor], Tensor], good: Callable[[Tensor], Tensor]
) -> Iterator[Row]:
    """The values and the gradients of two losses at one point."""
    (bad_value, bad_slope), (value, slope) = at(point, bad), at(point, good)
    yield row(what, bad_value, value)
    yield row("its gradient", bad_slope, slope)


@experiment("GL601", "A prediction that has become exactly 0, in float32 and in float16.", torch.float32)
def log_of_unbounded() -> Iterator[Row]:
    yield from both(
        "-log(p) at p = 0, with `clamp_min(1e-6)`", [0.0], lambda p: -p.log(), lambda p: -p.clamp_min(1e-6).log()
    )

    def half(eps: float) -> str:
        return at([0.0], lambda p: -(p + eps).log(), torch.float16)[0]

    yield row("-log(p + eps) in float16, eps = 1e-8 and 1e-4", half(1e-8), half(1e-4))
    yield row(
        "what eps becomes in float16", *(shown(torch.tensor(eps, dtype=torch.float16).item()) for eps in (1e-8, 1e-4))
    )


@experiment("GL602", "A loss that divides by a prediction, which is 0 for one of two samples.", torch.float32)
def division_by_prediction() -> Iterator[Row]:
    truth = torch.tensor([1.0, 0.0])

    def relative(p: Tensor) -> Tensor:
        return ((truth - p) / p).square().mean()

    def guarded(p: Tensor) -> Tensor:
        return ((truth - p) / p.clamp_min(1e-2)).square().mean()

    yield from both("mean(((y - p) / p)²) at p = (0.5, 0), with `clamp_min(1e-2)`", [0.5, 0.0], relative, guarded)


@experiment(
    "GL603",
    "The gradient where the argument of the root is 0: a perfect prediction, padding, equal vectors.",
    torch.float32,
)
def sqrt_at_zero() -> Iterator[Row]:
    def slope(loss: Callable[[Tensor], Tensor]) -> str:
        return at([0.0], loss)[1]

    yield row("gradient at 0 of `sqrt(x**2)`, of `x.abs()`", slope(lambda x: (x**2).sqrt()), slope(torch.abs))
    clamped = slope(lambda x: (x**2).clamp(min=0).sqrt())
    yield row("of `sqrt(clamp(x**2, min=0))`, of `sqrt(x**2 + 1e-8)`", clamped, slope(lambda x: (x**2 + 1e-8).sqrt()))
    bad = slope(lambda x: F.mse_loss(x, torch.zeros(1)).sqrt())
    good = slope(lambda x: (F.mse_loss(x, torch.zeros(1)) + 1e-8).sqrt())
    yield row("of an RMSE loss, without and with eps inside the root", bad, good)


@experiment("GL604", "Logits that are large, but not unusual.", torch.float32)
def exp_of_logits() -> Iterator[Row]:
    def by_hand(x: Tensor) -> Tensor:
        return x.exp().sum().log()

    def fused(x: Tensor) -> Tensor:
        return x.logsumexp(dim=0)

    yield from both("log(sum(exp(x))) at x = (100, 95), and `logsumexp`", [100.0, 95.0], by_hand, fused)
    half = torch.tensor([12.0, 0.0]).half()
    yield row("the same in float16 at x = (12, 0)", by_hand(half).item(), fused(half).item())


@experiment("GL605", "The logarithm of a probability, taken in two steps and in one.", torch.float32)
def unfused_log() -> Iterator[Row]:
    yield from both(
        "log(softmax(x)) at x = (200, 0), and `log_softmax`", [200.0, 0.0],
        lambda x: torch.log(torch.softmax(x, 0)), lambda x: torch.log_softmax(x, 0),
    )  # fmt: skip
    wrong = torch.zeros(1)  # the label of a prediction that is sure of the opposite
    bad, bad_slope = at([200.0], lambda x: F.binary_cross_entropy(torch.sigmoid(x), wrong))
    good, slope = at([200.0], lambda x: F.binary_cross_entropy_with_logits(x, wrong))
    yield row("sigmoid + BCE at x = 200, label 0: loss and gradient", f"{bad}; {bad_slope}", f"{good}; {slope}")
    tiny = torch.tensor([1e-10])
    yield row("log(1 + x) at x = 1e-10, and `log1p`", torch.log(1 + tiny).item(), torch.log1p(tiny).item())


@experiment(
    "GL606", "Ten classes; `cross_entropy` of probabilities, and of the logits that they were made of.", torch.float32
)
def softmax_before_cross_entropy() -> Iterator[Row]:
    label = torch.tensor([0])

    def run(sure_of: int | None, softmax: bool) -> tuple[float, float]:
        """The loss and the norm of its gradient for a prediction that is sure of a class, or of none; right is 0."""
        x = torch.zeros(1, 10)
        if sure_of is not None:
            x[0, sure_of] = 20.0
        x.requires_grad_()
        loss = F.cross_entropy(x.softmax(1) if softmax else x, label)
        loss.backward()
        assert x.grad is not None
        return loss.item(), norm(x.grad)

    yield row(
        "loss of a prediction that is sure and right", *(at_most(run(0, softmax)[0], 1e-6) for softmax in (True, False))
    )
    yield row("norm of the gradient, undecided", *(run(None, softmax)[1] for softmax in (True, False)))
    yield row("norm of the gradient, sure and wrong", *(at_most(run(1, softmax)[1], 1e-6) for softmax in (True, False)))
    sure = torch.zeros(1, 10)
    sure[0, 0] = 20.0
    found = (F.nll_loss(sure.softmax(1), label).item(), at_most(F.nll_loss(sure.log_softmax(1), label).item(), 1e-6))
    yield row("`nll_loss` of probabilities, of log-probabilities (sure and right)", *found)
