"""GL4: the order of zero_grad, backward, step and scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim.lr_scheduler import ExponentialLR

from docs.facts.experiment import experiment, listed, outcome, row, shown, warning
from docs.facts.lab import (
    N,
    batches,
    cosine,
    found,
    gradient,
    gradient_of,
    loss_of,
    mean_loss,
    network,
    norm,
    update,
    whole,
)
from gradlint.docs.facts import Row

Optimizer = torch.optim.Optimizer


def train(
    turn: Callable[[nn.Module, Optimizer, Tensor], None], *, updates: int, lr: float = 0.05, momentum: float = 0.0
) -> nn.Sequential:
    """A network after so many turns of a loop, which gets the model, its optimizer and the loss."""
    model, data = network(), batches(20)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    for i in range(updates):
        turn(model, optimizer, loss_of(model, data[i % len(data)]))
    return model


def right(model: nn.Module, optimizer: Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def never_cleared(model: nn.Module, optimizer: Optimizer, loss: Tensor) -> None:
    loss.backward()
    optimizer.step()


def cleared_too_late(model: nn.Module, optimizer: Optimizer, loss: Tensor) -> None:
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()


def stepped_too_early(model: nn.Module, optimizer: Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    optimizer.step()
    loss.backward()


def _losses(turn: Callable[[nn.Module, Optimizer, Tensor], None], *updates: int) -> str:
    return listed([mean_loss(train(turn, updates=count), batches(20)) for count in updates])


@experiment("GL401", "A small network trained by SGD with lr=0.05 on 20 batches, again and again.")
def missing_zero_grad() -> Iterator[Row]:
    used, own = [], []
    for turn in (never_cleared, right):
        model = train(turn, updates=10)
        used.append(gradient(model).clone())
        own.append(gradient_of(train(turn, updates=9), batches(20)[9]))
    longer = [norm(u) / norm(o) for u, o in zip(used, own, strict=True)]
    yield row("norm of the gradient that the 10th step uses / of its batch's own", *longer)
    yield row("cosine of the two", *(cosine(u, o) for u, o in zip(used, own, strict=True)))
    yield row(
        "loss on all data after 0, 5, 20, 60 updates", *(_losses(t, 0, 5, 20, 60) for t in (never_cleared, right))
    )


@experiment("GL402", "A window of four micro-batches, compared with one large batch of the same samples.")
def zero_grad_in_accumulation() -> Iterator[Row]:
    parts = batches(N)

    def run(clear_each: bool) -> Tensor:
        model = network()
        for part in parts:
            if clear_each:
                model.zero_grad()
            (loss_of(model, part) / N).backward()
        return gradient(model)

    large, last = gradient_of(network(), whole(parts)), gradient_of(network(), parts[-1])
    bad, good = run(clear_each=True), run(clear_each=False)
    yield row("cosine to the large batch's gradient", cosine(bad, large), cosine(good, large))
    yield row("norm / large batch's", norm(bad) / norm(large), norm(good) / norm(large))
    yield row("cosine to the last micro-batch's gradient", cosine(bad, last), cosine(good, last))


def _last_turn(
    turn: str, optimizer_of: Callable[[nn.Module], Optimizer], *, set_to_none: bool = True
) -> tuple[str, float]:
    """Gradients that the step finds, and the norm of its update, on the turn after a good one."""
    model, (first, second) = network(), batches(2)
    optimizer = optimizer_of(model)
    right(model, optimizer, loss_of(model, first))
    loss = loss_of(model, second)
    if turn != "cleared late":
        optimizer.zero_grad(set_to_none=set_to_none)
    if turn != "stepped early":
        loss.backward()
    if turn == "cleared late":
        optimizer.zero_grad(set_to_none=set_to_none)
    return found(model), norm(update(model, optimizer.step))


def _plain(model: nn.Module) -> Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05)


def _momentum(model: nn.Module) -> Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def _scaler_step(turn: str) -> str:
    model, scaler = network(), GradScaler("cpu")
    optimizer = _plain(model)
    loss = loss_of(model, batches(1)[0])
    if turn == "stepped early":
        return outcome(lambda: scaler.step(optimizer))
    scaler.scale(loss).backward()
    if turn == "cleared late":
        optimizer.zero_grad()
    return outcome(lambda: scaler.step(optimizer))


@experiment("GL403", "Turns of backward, zero_grad, step, on a small network with lr=0.05.")
def zero_grad_before_step() -> Iterator[Row]:
    (bad_found, bad), (good_found, good) = (_last_turn(turn, _plain) for turn in ("cleared late", "right"))
    yield row(
        "gradients that the step finds; norm of the update (SGD)",
        f"{bad_found}; {shown(bad)}",
        f"{good_found}; {shown(good)}",
    )
    yield row("loss on all data after 0 and 100 updates", _losses(cleared_too_late, 0, 100), _losses(right, 0, 100))
    kept = [_last_turn(turn, _momentum, set_to_none=False)[1] for turn in ("cleared late", "right")]
    yield row("norm of the update (SGD with momentum, `set_to_none=False`)", *kept)
    yield row("`scaler.step`", _scaler_step("cleared late"), _scaler_step("right"))


@experiment("GL404", "Turns of zero_grad, step, backward, on a small network with lr=0.05.")
def step_before_backward() -> Iterator[Row]:
    (bad_found, bad), (good_found, good) = (_last_turn(turn, _plain) for turn in ("stepped early", "right"))
    yield row("gradients that the step finds", bad_found, good_found)
    yield row("norm of the update (SGD)", bad, good)
    yield row("loss on all data after 0 and 100 updates", _losses(stepped_too_early, 0, 100), _losses(right, 0, 100))
    yield row("`scaler.step`, on the first turn", _scaler_step("stepped early"), _scaler_step("right"))


@experiment("GL405", "A small network trained by SGD with lr=0.05; the parentheses of one method are left out.")
def method_not_called() -> Iterator[Row]:
    def no_clearing(model: nn.Module, optimizer: Optimizer, loss: Tensor) -> None:
        optimizer.zero_grad  # noqa: B018  # the mistake
        loss.backward()
        optimizer.step()

    def no_step(model: nn.Module, optimizer: Optimizer, loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step  # noqa: B018  # the mistake

    def no_backward(model: nn.Module, optimizer: Optimizer, loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward  # noqa: B018  # the mistake
        optimizer.step()

    good = _losses(right, 0, 60)
    for name, turn in (
        ("optimizer.zero_grad", no_clearing),
        ("loss.backward", no_backward),
        ("optimizer.step", no_step),
    ):
        yield row(f"loss after 0 and 60 updates, if `{name}`", _losses(turn, 0, 60), good)
    said = [warning(partial(train, turn, updates=2), Warning) for turn in (no_step, right)]
    yield row("what Python and torch say", *said)


@experiment("GL406", "ExponentialLR with gamma=0.5 from lr=0.1.")
def scheduler_before_optimizer() -> Iterator[Row]:
    def run(early: bool, *, stepped_before: bool = False, overflow: bool = False) -> list[float]:
        """The learning rates of four updates; with an overflow the scaler skips the first one."""
        weight, scaler = nn.Parameter(torch.zeros(1)), GradScaler("cpu")
        optimizer = torch.optim.SGD([weight], lr=0.1)
        scheduler, used = ExponentialLR(optimizer, gamma=0.5), []
        if stepped_before:
            optimizer.step()
        for i in range(4):
            if early:
                scheduler.step()
            used.append(optimizer.param_groups[0]["lr"])
            scaler.scale(weight.sum() * (float("inf") if overflow and i == 0 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
            if not early:
                scheduler.step()
        return used

    yield row("lr of the first four updates", listed(run(early=True)), listed(run(early=False)))
    yield row("what torch says", *(warning(partial(run, early)) for early in (True, False)))
    said = (warning(partial(run, early, stepped_before=True)) for early in (True, False))
    yield row("what torch says, if the optimizer has stepped before", *said)
    said = (warning(partial(run, early, overflow=True)) for early in (True, False))
    yield row("what torch says, if a scaler skips the first update", *said)
