"""What watching gradients costs: the step time of a transformer of ten million parameters, with and without a monitor.

    python -m benchmarks.monitor

One model is trained on one batch after the other, and for each batch every contender takes one step, in a new order: a
machine that gets slower meanwhile, and the place of a model in memory, do not count. Each has an optimizer of its own,
because that is what a monitor watches. A round is as many batches as lie between two samples; its ratios are to the
plain steps of the same round. CPU time is measured, which other processes disturb less than the clock on the wall. The
medians over all rounds are printed.
"""

from __future__ import annotations

import argparse
import contextlib
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
GOAL = 0.01

VOCABULARY = 1000


class Transformer(nn.Module):
    """A language model of about ten million parameters."""

    def __init__(self, width: int = 384, depth: int = 5, length: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width)
        self.places = nn.Parameter(torch.randn(length, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 6, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.blocks(self.words(words) + self.places))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Contender:
    """Somebody who watches the steps of an optimizer."""

    name: str
    optimizer: torch.optim.Optimizer
    clips: bool = True
    #: called with the loss, between clip and step
    look: Callable[[Tensor], None] = lambda loss: None
    monitor: GradientMonitor | None = None

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """The others' clips are of the same parameters, and none of its business."""
        watcher = self.monitor._watcher if self.monitor is not None else None
        if watcher is not None:
            watcher.silent = False
        yield
        if watcher is not None:
            watcher.silent = True


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


PLAIN, PLAIN_UNCLIPPED = "plain", "plain, without a clip"


def contenders(model: nn.Module, seldom: bool) -> Iterator[Contender]:
    def optimizer() -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=1e-4)

    for plain, clips in ((PLAIN, True), (PLAIN_UNCLIPPED, False)):
        yield Contender(plain, optimizer(), clips)
        for interval in (EVERY,) if seldom else (EVERY, 1):
            watched = optimizer()
            monitor = GradientMonitor(model, watched, every=interval)
            name = f"GradientMonitor, every {interval}{plain.removeprefix(PLAIN)}"
            yield Contender(name, watched, clips, monitor.loss, monitor)
    for interval in (EVERY,) if seldom else (EVERY, 1):
        yield Contender(f"one .item() for each number, every {interval}", optimizer(), look=Naive(model, interval))


def step(model: nn.Module, contender: Contender, words: Tensor) -> float:
    """Seconds of CPU time."""
    with contender.at_work():
        began = time.process_time()
        contender.optimizer.zero_grad()
        guess = model(words)[:, :-1].flatten(0, 1)
        loss: Any = nn.functional.cross_entropy(guess, words[:, 1:].flatten())
        loss.backward()
        if contender.clips:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        contender.look(loss)
        contender.optimizer.step()
        return time.process_time() - began


def measure(rounds: int, threads: int, seldom: bool) -> dict[str, list[float]]:
    """Seconds of CPU time for each step, by contender and round."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = Transformer()
    runners = list(contenders(model, seldom))
    for runner in runners:
        if runner.monitor is not None:
            runner.monitor.start()
            runner.monitor._watcher.silent = True
    seconds: dict[str, list[float]] = {runner.name: [] for runner in runners}
    order = random.Random(0)
    for i in range(-1, rounds * EVERY):
        words = torch.randint(VOCABULARY, (8, 64))
        for runner in order.sample(runners, len(runners)):
            took = step(model, runner, words)
            if i >= 0:  # the first step of each warms up
                seconds[runner.name].append(took)
    for runner in runners:
        if runner.monitor is not None:
            runner.monitor.close()
    return {
        name: [sum(found[i : i + EVERY]) / EVERY for i in range(0, len(found), EVERY)]
        for name, found in seconds.items()
    }


def ratios(seconds: dict[str, list[float]]) -> dict[str, float]:
    """To the plain steps of the same round, with a clip or without."""
    found = {}
    for name, each in seconds.items():
        plain = seconds[PLAIN_UNCLIPPED if name.endswith("without a clip") else PLAIN]
        found[name] = median(mine / base for mine, base in zip(each, plain, strict=True))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.monitor", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--seldom", action="store_true", help="only at the default interval")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    seconds = measure(arguments.rounds, arguments.threads, arguments.seldom)
    found = ratios(seconds)
    cost = max(ratio for name, ratio in found.items() if f"Monitor, every {EVERY}" in name) - 1
    naive = found[f"one .item() for each number, every {EVERY}"] - 1
    if arguments.json:
        print(json.dumps({"seconds": {name: median(each) for name, each in seconds.items()}, "ratios": found}))
    else:
        for name, each in seconds.items():
            print(f"{name:48} {1000 * median(each):8.2f} ms a step   {found[name]:6.4f} × plain")
        print(f"\ncost at the default interval: {100 * cost:.2f} % (goal: at most {100 * GOAL:g} %, and less than one")
        print(f".item() for each number, {100 * naive:.2f} %)")
    return 0 if cost <= min(GOAL, naive) else 1


if __name__ == "__main__":
    sys.exit(main())
