"""GL3: windows of micro-batches against the large batch that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, OneCycleLR

from docs.facts.experiment import at_most, experiment, listed, outcome, row
from docs.facts.lab import (
    Axes,
    Batch,
    N,
    batches,
    clip,
    cosine,
    gradient,
    gradient_of,
    loss_of,
    network,
    norm,
    weights,
    whole,
)
from gradlint.docs.facts import Row


def accumulated(parts: list[Batch], divisor: float) -> Tensor:
    """The gradient of a window whose losses are divided by this."""
    model = network()
    for part in parts:
        (loss_of(model, part) / divisor).backward()
    return gradient(model)


def _adamw(windows: list[list[Batch]], divisor: float, max_norm: float) -> Tensor:
    """The weights after one update for each window."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for parts in windows:
        for part in parts:
            (loss_of(model, part) / divisor).backward()
        clip(model, max_norm)
        optimizer.step()
        optimizer.zero_grad()
    return weights(model)


@experiment("GL301", "Windows of four micro-batches, compared with one large batch of the same samples.")
def unscaled_accumulation_loss() -> Iterator[Row]:
    parts = batches(N, size=2)
    large = gradient_of(network(), whole(parts))
    bad, good = accumulated(parts, divisor=1), accumulated(parts, divisor=N)
    yield row(
        "norm of the gradient (SGD: of the update) / large batch's", norm(bad) / norm(large), norm(good) / norm(large)
    )
    yield row("cosine to the large batch's gradient", cosine(bad, large), cosine(good, large))
    data = batches(50 * N)
    windows = [data[i : i + N] for i in range(0, len(data), N)]
    for limit, name in ((float("inf"), "no clip"), (1.0, "max_norm=1.0")):
        reference = _adamw([[whole(parts)] for parts in windows], divisor=1, max_norm=limit)
        off = [norm(_adamw(windows, divisor, limit) - reference) / norm(reference) for divisor in (1, N)]
        what = f"AdamW, 50 updates, {name}: weights differ from the large batch's by"
        yield row(what, at_most(off[0], 1e-4), at_most(off[1], 1e-4))


@experiment("GL302", "A window of four micro-batches; `.grad` is divided by 4 on each of them, or the loss is.")
def gradients_scaled_by_hand() -> Iterator[Row]:
    def divide(model: nn.Module) -> None:
        for p in model.parameters():
            if p.grad is not None:
                p.grad.div_(N)

    axes = Axes()
    for i in range(N):
        axes.loss(i).backward()
        divide(axes)
    right = Axes()
    for i in range(N):
        (right.loss(i) / N).backward()
    yield row("weight of micro-batches 1, 2, 3, 4", listed(gradient(axes).tolist()), listed(gradient(right).tolist()))

    parts = batches(N, size=2)
    large, good = gradient_of(network(), whole(parts)), accumulated(parts, divisor=N)
    each, once = network(), network()
    for part in parts:
        loss_of(each, part).backward()
        divide(each)
        loss_of(once, part).backward()
    divide(once)
    bad = gradient(each)
    yield row("cosine to the large batch's gradient", cosine(bad, large), cosine(good, large))
    yield row("norm / large batch's", norm(bad) / norm(large), norm(good) / norm(large))
    yield row(
        "norm / large batch's, if divided once, at the boundary",
        norm(gradient(once)) / norm(large),
        norm(good) / norm(large),
    )


@experiment("GL304", "Two epochs over 10 micro-batches with N = 4.")
def dropped_last_window() -> Iterator[Row]:
    def run(steps_at_the_end: bool, clears_first: bool) -> tuple[list[int], int]:
        """The micro-batches in each update, and those whose gradients were thrown away."""
        windows, lost, pending = [], 0, 0
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(2):
            if clears_first:
                lost += pending
                pending = 0
                optimizer.zero_grad()
            for i, batch in enumerate(batches(10)):
                (loss_of(model, batch) / N).backward()
                pending += 1
                if (i + 1) % N == 0 or (steps_at_the_end and i + 1 == 10):
                    optimizer.step()
                    optimizer.zero_grad()
                    windows.append(pending)
                    pending = 0
        return windows, lost + (pending if clears_first else 0)

    def counts(numbers: list[int]) -> str:
        return ", ".join(map(str, numbers))

    bad, good = run(False, clears_first=False), run(True, clears_first=False)
    yield row("micro-batches in each update, if nothing clears between epochs", counts(bad[0]), counts(good[0]))
    bad, good = run(False, clears_first=True), run(True, clears_first=True)
    yield row("micro-batches in each update, if every epoch clears first", counts(bad[0]), counts(good[0]))
    yield row("micro-batches thrown away, if every epoch clears first", f"{bad[1]} of 20", f"{good[1]} of 20")


@experiment("GL305", "100 micro-batches, 25 updates (N = 4), schedules laid out for 25 updates; lr=0.1 at first.")
def scheduler_per_micro_batch() -> Iterator[Row]:
    def rates(make: Callable[[torch.optim.Optimizer], LRScheduler], every: int) -> list[float]:
        """The learning rate of each update."""
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
        scheduler, used = make(optimizer), []
        for i in range(100):
            if (i + 1) % N == 0:
                used.append(optimizer.param_groups[0]["lr"])
                optimizer.step()
            if (i + 1) % every == 0:
                scheduler.step()
        return used

    def linear(optimizer: torch.optim.Optimizer) -> LRScheduler:
        return LinearLR(optimizer, start_factor=1.0, end_factor=0.01, total_iters=25)

    def cosine_shaped(optimizer: torch.optim.Optimizer) -> LRScheduler:
        return CosineAnnealingLR(optimizer, T_max=25)

    def one_cycle(optimizer: torch.optim.Optimizer) -> LRScheduler:
        return OneCycleLR(optimizer, max_lr=0.1, total_steps=25)

    for name, make in (("LinearLR", linear), ("CosineAnnealingLR", cosine_shaped)):
        bad, good = rates(make, every=1), rates(make, every=N)
        picked = [0, 6, 12, 24]
        what = f"{name}: lr of updates 1, 7, 13, 25"
        yield row(what, listed([bad[i] for i in picked]), listed([good[i] for i in picked]))
    yield row("OneCycleLR", outcome(lambda: rates(one_cycle, every=1)), outcome(lambda: rates(one_cycle, every=N)))


@experiment("GL306", "Four micro-batches; a stand-in for `accelerator.backward`, which divides the loss by N, and SGD.")
def loss_divided_twice() -> Iterator[Row]:
    def window(by_hand: bool) -> nn.Module:
        def framework_backward(loss: Tensor) -> None:
            (loss / N).backward()  # what Accelerate does when it was built with gradient_accumulation_steps=N

        model = network()
        for part in batches(N, size=2):
            loss = loss_of(model, part)
            framework_backward(loss / N if by_hand else loss)
        return model

    large = gradient_of(network(), whole(batches(N, size=2)))
    bad, good = gradient(window(by_hand=True)), gradient(window(by_hand=False))
    yield row("norm of the gradient / large batch's", norm(bad) / norm(large), norm(good) / norm(large))
    limit = norm(large) / 2
    acts = ["yes" if clip(window(by_hand), limit) > limit else "no" for by_hand in (True, False)]
    yield row("does a clip at half the large batch's norm act?", *acts)


@experiment("GL307", "A window of two micro-batches of text, one with 50 real tokens and one with 500, in 20 classes.")
def token_mean_accumulation() -> Iterator[Row]:
    source = torch.Generator().manual_seed(6)
    sizes = (50, 500)
    tokens = [torch.randn(size, 8, generator=source) for size in sizes]
    labels = [torch.randint(20, (size,), generator=source) for size in sizes]

    def run(by_tokens: bool, extra: int | None = None) -> Tensor:
        """The gradient of the window; `extra`: only the first token of this micro-batch is looked at."""
        torch.manual_seed(7)
        head = nn.Linear(8, 20)
        for i, (x, y) in enumerate(zip(tokens, labels, strict=True)):
            losses = nn.functional.cross_entropy(head(x), y, reduction="none")
            if extra is not None:
                losses = losses * (torch.arange(len(losses)) == 0) * (i == extra)
            (losses.sum() / sum(sizes) if by_tokens else losses.mean() / len(sizes)).backward()
        return gradient(head)

    large = run(by_tokens=True)
    bad = run(by_tokens=False)
    few = [norm(run(by, extra=0)) for by in (False, True)]
    many = [norm(run(by, extra=1)) for by in (False, True)]
    alone = few[1] / many[1]  # two tokens have two gradients: how long they are by themselves is divided out
    yield row("weight of a token of the small one / of the large one", few[0] / many[0] / alone, 1.0)
    yield row("cosine to the gradient of all 550 tokens", cosine(bad, large), cosine(large, large))
    yield row("norm / that of all 550 tokens", norm(bad) / norm(large), 1.0)


@experiment("GL308", "A loader of 12 micro-batches, N = 4, `i % 4 == 0` against `(i + 1) % 4 == 0`.")
def accumulation_off_by_one() -> Iterator[Row]:
    data = batches(12)

    def run(offset: int) -> tuple[list[int], int, float]:
        """Micro-batches in each update, those that are left at the end, and the norm of the first gradient."""
        model, windows, pending, first = network(), [], 0, 0.0
        for i, batch in enumerate(data):
            (loss_of(model, batch) / N).backward()
            pending += 1
            if (i + offset) % N == 0:
                first = first or norm(gradient(model))
                model.zero_grad()
                windows.append(pending)
                pending = 0
        return windows, pending, first

    (bad_windows, bad_left, bad_first), (windows, left, good_first) = run(offset=0), run(offset=1)
    yield row("micro-batches in each update", ", ".join(map(str, bad_windows)), ", ".join(map(str, windows)))
    yield row("micro-batches left at the end of the loader", bad_left, left)
    one, four = (norm(gradient_of(network(), whole(data[:size]))) for size in (1, N))
    yield row("norm of the first gradient / that of its own samples as one batch", bad_first / one, good_first / four)
