"""What watching gradients costs: the step time of a small transformer with and without a monitor.

    python -m benchmarks.monitor

One model is trained, and the contenders take turns in watching it, a block of steps each; a round is one block of
every contender in a new order, and its ratios are to the plain block of the same round: neither a machine that gets
slower meanwhile nor the place of a model in memory counts. CPU time is measured, which other processes disturb less
than the clock on the wall. The medians over all rounds are printed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from gradlint.runtime import GradientMonitor
from gradlint.runtime.monitor.monitor import EVERY

#: the share of a step's time that the monitor may take at the default interval
GOAL = 0.02

VOCABULARY = 1000


class Transformer(nn.Module):
    """A language model of about a million parameters."""

    def __init__(self, width: int = 128, depth: int = 4, length: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width)
        self.places = nn.Parameter(torch.randn(length, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.blocks(self.words(words) + self.places))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Contender:
    """Somebody who watches the training."""

    name: str
    #: called with the loss, between clip and step
    look: Callable[[Tensor], None] = lambda loss: None
    monitor: GradientMonitor | None = None


class Naive:
    """The same numbers for each parameter, each fetched by itself."""

    def __init__(self, model: nn.Module, every: int) -> None:
        self.model = model
        self.every = every
        self.steps = 0
        self.kept: list[Any] = []

    def __call__(self, loss: Tensor) -> None:
        self.steps += 1
        if self.steps % self.every:
            return
        layers = {
            name: (
                p.grad.norm().item(),
                p.grad.mean().item(),
                p.grad.std().item(),
                p.grad.abs().max().item(),
                (p.grad.norm() / p.norm()).item(),
            )
            for name, p in self.model.named_parameters()
            if p.grad is not None
        }
        self.kept.append((loss.item(), layers))


def contenders(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Contender]:
    yield Contender("plain")
    for interval in (EVERY, 1):
        monitor = GradientMonitor(model, optimizer, every=interval)
        yield Contender(f"GradientMonitor, every {interval}", monitor.loss, monitor)
    for interval in (EVERY, 1):
        yield Contender(f"one .item() for each number, every {interval}", Naive(model, interval))


@dataclass(frozen=True)
class Training:
    """A small language model that learns noise."""

    model: nn.Module
    optimizer: torch.optim.Optimizer

    def steps(self, batches: list[Tensor], look: Callable[[Tensor], None]) -> float:
        """Seconds of CPU time for each step."""
        began = time.process_time()
        for words in batches:
            self.optimizer.zero_grad()
            guess = self.model(words)[:, :-1].flatten(0, 1)
            loss: Any = nn.functional.cross_entropy(guess, words[:, 1:].flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            look(loss)
            self.optimizer.step()
        return (time.process_time() - began) / len(batches)

    def watched_by(self, contender: Contender, batches: list[Tensor]) -> float:
        if contender.monitor is not None:
            contender.monitor.start()
        self.steps(batches[:1], contender.look)  # what was done between the blocks is none of its cost
        # Any EVERY steps in a row hold one sample.
        seconds = self.steps(batches[1 : EVERY + 1], contender.look)
        if contender.monitor is not None:
            contender.monitor.close()
        return seconds


def measure(rounds: int, threads: int) -> dict[str, list[float]]:
    """Seconds of CPU time for each step, by contender and round."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = Transformer()
    training = Training(model, torch.optim.AdamW(model.parameters(), lr=1e-4))
    runners = list(contenders(model, training.optimizer))
    seconds: dict[str, list[float]] = {runner.name: [] for runner in runners}
    order = random.Random(0)
    for i in range(-1, rounds):
        batches = [torch.randint(VOCABULARY, (8, 64)) for _ in range(EVERY + 1)]
        for runner in order.sample(runners, len(runners)):
            each = training.watched_by(runner, batches)
            if i >= 0:  # the first round warms up
                seconds[runner.name].append(each)
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.monitor", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    seconds = measure(arguments.rounds, arguments.threads)
    plain = seconds["plain"]
    ratios = {
        name: median(each / base for each, base in zip(found, plain, strict=True)) for name, found in seconds.items()
    }
    cost = next(ratio for name, ratio in ratios.items() if name.endswith(f"Monitor, every {EVERY}")) - 1
    if arguments.json:
        print(json.dumps({"seconds": {name: median(found) for name, found in seconds.items()}, "ratios": ratios}))
    else:
        for name, found in seconds.items():
            print(f"{name:40} {1000 * median(found):8.2f} ms a step   {ratios[name]:6.3f} × plain")
        print(f"\ncost at the default interval: {100 * cost:.2f} % (goal: at most {100 * GOAL:g} %)")
    return 0 if cost <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
