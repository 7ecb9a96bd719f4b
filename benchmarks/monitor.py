"""What watching gradients costs: the share of a step of a transformer of ten million parameters that a monitor takes.

    python -m benchmarks.monitor

One model is trained on one batch after the other, and for each batch every contender takes one step, in a new order;
each has an optimizer of its own, because that is what a monitor watches. The time that a contender's own code takes is
measured inside of its steps: a difference of a hundredth between whole steps would drown in what other processes do to
caches and clocks. A round is as many batches as lie between two samples; its share is of the plain steps of the same
round, with a clip or without. CPU time is measured. The medians over all rounds are printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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

    def __init__(self, width: int = 384, depth: int = 5, length: int = 128) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width)
        self.places = nn.Parameter(torch.randn(length, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 6, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.blocks(self.words(words) + self.places))  # type: ignore[no-any-return]


class Stopwatch:
    """The CPU time of the functions that it was put round."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def round(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.process_time() - began

        return timed


@dataclass(frozen=True)
class Contender:
    """Somebody who watches the steps of an optimizer."""

    name: str
    optimizer: torch.optim.Optimizer
    clips: bool = True
    #: called with the loss, between clip and step
    look: Callable[[Tensor], None] = lambda loss: None
    monitor: GradientMonitor | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)

    def start(self) -> None:
        if self.monitor is None:
            return
        watcher: Any = self.monitor._watcher
        for name in ("before_clip", "clip_returned", "_before_step", "_after_step"):
            setattr(watcher, name, self.watch.round(getattr(watcher, name)))
        self.monitor.start()
        watcher.silent = True

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

    def __init__(self, model: nn.Module, every: int, total: bool = False) -> None:
        self.model = model
        self.every = every
        #: the total norm at every step, too, where no clip tells it
        self.total = total
        self.steps = 0
        self.kept: list[Any] = []

    def __call__(self, loss: Tensor) -> None:
        self.steps += 1
        if self.total:
            norms = [p.grad.norm() for p in self.model.parameters() if p.grad is not None]
            self.kept.append(torch.stack(norms).norm().item())
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
NAIVE = "one .item() for each number"


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
            name = f"{NAIVE}, every {interval}{plain.removeprefix(PLAIN)}"
            yield Contender(name, optimizer(), clips, look=Naive(model, interval, total=not clips))


def step(model: nn.Module, contender: Contender, words: Tensor) -> tuple[float, float]:
    """Seconds of CPU time: of the whole step, and of the contender's own code in it."""
    with contender.at_work():
        own = contender.watch.seconds
        look = contender.watch.round(contender.look)
        began = time.process_time()
        contender.optimizer.zero_grad()
        guess = model(words)[:, :-1].flatten(0, 1)
        loss: Any = nn.functional.cross_entropy(guess, words[:, 1:].flatten())
        loss.backward()
        if contender.clips:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        look(loss)
        contender.optimizer.step()
        return time.process_time() - began, contender.watch.seconds - own


def measure(rounds: int, threads: int, seldom: bool) -> dict[str, list[tuple[float, float]]]:
    """Both of them for each step, by contender and round."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = Transformer()
    runners = list(contenders(model, seldom))
    for runner in runners:
        runner.start()
    seconds: dict[str, list[tuple[float, float]]] = {runner.name: [] for runner in runners}
    order = random.Random(0)
    for i in range(-1, rounds * EVERY):
        words = torch.randint(VOCABULARY, (8, 128))
        for runner in order.sample(runners, len(runners)):
            took = step(model, runner, words)
            if i >= 0:  # the first step of each warms up
                seconds[runner.name].append(took)
    for runner in runners:
        if runner.monitor is not None:
            runner.monitor.close()
    return {name: [_mean(found[i : i + EVERY]) for i in range(0, len(found), EVERY)] for name, found in seconds.items()}


def _mean(steps: list[tuple[float, float]]) -> tuple[float, float]:
    whole, own = zip(*steps, strict=True)
    return sum(whole) / len(steps), sum(own) / len(steps)


def shares(seconds: dict[str, list[tuple[float, float]]]) -> dict[str, float]:
    """What each contender's own code takes, as a share of the plain steps of the same round."""
    found = {}
    for name, each in seconds.items():
        plain = seconds[PLAIN_UNCLIPPED if name.endswith("without a clip") else PLAIN]
        found[name] = median(own / base for (_, own), (base, _) in zip(each, plain, strict=True))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.monitor", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--seldom", action="store_true", help="only at the default interval")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    seconds = measure(arguments.rounds, arguments.threads, arguments.seldom)
    found = shares(seconds)
    ours = {name: share for name, share in found.items() if f"Monitor, every {EVERY}" in name}
    missed = [name for name, share in ours.items() if share > min(GOAL, found[name.replace("GradientMonitor", NAIVE)])]
    if arguments.json:
        steps = {name: median(whole for whole, _ in each) for name, each in seconds.items()}
        print(json.dumps({"seconds": steps, "shares": found}))
    else:
        for name, each in seconds.items():
            whole = 1000 * median(whole for whole, _ in each)
            print(f"{name:44} {whole:8.2f} ms a step, {100 * found[name]:6.3f} % of a plain one its own")
        print(f"\ngoals at the default interval: at most {100 * GOAL:g} %, and less than {NAIVE}")
        print(f"missed: {'; '.join(missed)}" if missed else "all are met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
