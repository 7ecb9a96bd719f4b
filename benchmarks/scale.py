"""What linting costs as files grow: each shape is doubled again and again, and should cost about twice as much.

    python -m benchmarks.scale [SHAPE …] [--doublings N] [--seconds S] [--rounds R]

Times are CPU seconds with fixes, the least of R; the memory is the peak of a process of its own. `growth` is the time
beside that of half the size: 2 is linear. A shape ends when a size takes longer than S.
"""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import resource
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from gradlint.config import Settings
from gradlint.engine import lint
from gradlint.runner.run import relax_collector

HEAD = "import torch\n\n\n"
LOOP = """\
def train{0}(model, loader, optimizer):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


"""
UPDATE = "{0}model(x).mean().backward()\n{0}optimizer.step()\n{0}optimizer.zero_grad()\n"
HELPER = """\
def helper_{0}(a, b):
    total = a + {0} * b
    for item in range(total):
        if item > {0}:
            total = total + item
    return [total, a, b]


"""


def loops(size: int) -> str:
    """Functions with a finding each."""
    return HEAD + "".join(LOOP.format(f"_{n}") for n in range(size))


def updates(size: int) -> str:
    """One loop with so many updates and a finding for each."""
    update = "        model(x).mean().backward()\n        optimizer.step()\n"
    return f"{HEAD}def train(model, loader, optimizer):\n    for x in loader:\n{update * size}"


def methods(size: int) -> str:
    """Methods that call each other."""
    inside = " " * 8
    bodies = (
        f"    def m{n}(self, model, optimizer, x):\n{UPDATE.format(inside)}"
        f"{inside}self.m{(n + 1) % size}(model, optimizer, x)\n{inside}self.m{n * 7 % size}(model, optimizer, x)\n\n"
        for n in range(size)
    )
    return f"{HEAD}{LOOP.format('')}class Trainer:\n{''.join(bodies)}"


def recursive(size: int) -> str:
    """Functions that call themselves and each other."""
    bodies = (
        f"def f{n}(model, optimizer, x, depth):\n{UPDATE.format('    ')}    if depth:\n"
        f"        f{n}(model, optimizer, x, depth - 1)\n        f{(n + 1) % size}(model, optimizer, x, depth - 1)\n\n\n"
        for n in range(size)
    )
    return f"{HEAD}{LOOP.format('')}{''.join(bodies)}"


def large(size: int) -> str:
    """Functions without gradients, and one finding."""
    return HEAD + "".join(HELPER.format(n) for n in range(size)) + LOOP.format("")


def branches(size: int) -> str:
    """A loop with conditions, and updates under each of them."""
    inside = "".join(f"        if flags.f{n}:\n{UPDATE.format(' ' * 12)}" for n in range(size))
    return f"{HEAD}{LOOP.format('')}def choose(model, loader, optimizer, flags):\n    for x in loader:\n{inside}"


def sums(size: int) -> str:
    """A sum of so many terms."""
    return f"{HEAD}def total(a):\n    return {' + '.join(['a'] * size)}\n\n\n{LOOP.format('')}"


def chains(size: int) -> str:
    """So many calls, each on the result of the one before."""
    return f"{HEAD}def built(a):\n    return a{'.add(1)' * size}\n\n\n{LOOP.format('')}"


def calls(size: int) -> str:
    """Functions that each call two of those behind them."""
    bodies = (
        f"def g{n}(model, optimizer, x):\n    g{n + 1}(model, optimizer, x)\n"
        f"    g{min(n * 2 + 3, size)}(model, optimizer, x)\n\n\n"
        for n in range(size)
    )
    last = f"def g{size}(model, optimizer, x):\n{UPDATE.format('    ')}\n\n"
    return f"{HEAD}{LOOP.format('')}{''.join(bodies)}{last}"


def classes(size: int) -> str:
    """Models, each built of the one before."""
    bodies = (
        f"class Model{n}(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.inner = Model{n - 1}()\n        self.layer = torch.nn.Linear(8, 8)\n\n"
        f"    def forward(self, x):\n        return torch.relu(self.layer(self.inner(x)))\n\n\n"
        for n in range(1, size)
    )
    first = "class Model0(torch.nn.Module):\n    def forward(self, x):\n        return x\n\n\n"
    return f"{HEAD}{first}{''.join(bodies)}{LOOP.format('')}"


def nested(size: int) -> str:
    """Conditions in conditions; twenty deep, again and again."""
    deep = "".join(f"{' ' * (4 * level)}if x > {level}:\n" for level in range(1, 21)) + UPDATE.format(" " * 84)
    bodies = (f"def deep_{n}(model, optimizer, x):\n{deep}\n\n" for n in range(size))
    return f"{HEAD}{LOOP.format('')}{''.join(bodies)}"


def elifs(size: int) -> str:
    """One chain of conditions."""
    inside = "".join(
        f"        {'el' if n else ''}if kind == {n}:\n            loss = model(x, {n}).mean()\n" for n in range(size)
    )
    update = "        loss.backward()\n        optimizer.step()\n        optimizer.zero_grad()\n"
    return f"{HEAD}{LOOP.format('')}def choose(model, loader, optimizer, kind):\n    for x in loader:\n{inside}{update}"


def dicts(size: int) -> str:
    """A dictionary of so many entries."""
    entries = "".join(f'    "key_{n}": [{n}, "value_{n}"],\n' for n in range(size))
    return f"{HEAD}TABLE = {{\n{entries}}}\n\n\n{LOOP.format('')}"


def statements(size: int) -> str:
    """One long function: sums and calls of what came before."""
    lines = "".join(f"    v{n + 1} = f(v{n}) + v{n // 2}\n" for n in range(size))
    return f"{HEAD}def long(v0):\n{lines}    return v{size}\n\n\n{LOOP.format('')}"


def logarithms(size: int) -> str:
    """One function with so many logarithms of what a loss is made of."""
    lines = "".join(f"    loss = loss - torch.log(probs[{n}])\n" for n in range(size))
    head = "def loss_of(logits, loss):\n    probs = torch.softmax(logits, -1)\n"
    return f"{HEAD}{head}{lines}    return loss\n\n\n{LOOP.format('')}"


#: each with the size that it begins with
SHAPES: dict[str, tuple[Callable[[int], str], int]] = {
    "loops": (loops, 20),
    "updates": (updates, 20),
    "methods": (methods, 100),
    "recursive": (recursive, 25),
    "large": (large, 1250),
    "branches": (branches, 10),
    "sums": (sums, 500),
    "chains": (chains, 100),
    "calls": (calls, 100),
    "classes": (classes, 50),
    "nested": (nested, 5),
    "elifs": (elifs, 25),
    "dicts": (dicts, 1000),
    "statements": (statements, 250),
    "logarithms": (logarithms, 25),
}


def measure(source: bytes, answer: Connection) -> None:
    """In a process of its own: the seconds of linting and of `ast.parse`, the peak in MB, the findings and fixes."""
    relax_collector()  # as the command line does
    lint(loops(1).encode(), "warm.py", Settings())
    begun = time.process_time()
    ast.parse(source)
    parsed = time.process_time()
    result = lint(source, "train.py", Settings())
    done = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    fixes = sum(finding.fix is not None for finding in result.findings)
    answer.send((done - parsed, parsed - begun, peak, len(result.findings), fixes))


def apart(source: bytes) -> tuple[float, float, float, int, int]:
    here, there = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=measure, args=(source, there))
    process.start()
    there.close()
    try:
        found: tuple[float, float, float, int, int] = here.recv()
    finally:
        process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--doublings", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    if unknown := set(options.shapes) - SHAPES.keys():
        parser.error(f"no such shape: {', '.join(sorted(unknown))}")
    print(
        f"{'shape':<10} {'size':>6} {'kB':>7} {'s':>7} {'growth':>6} {'parse s':>7} {'MB':>6} {'found':>6} {'fixes':>6}"
    )
    for name in options.shapes or SHAPES:
        make, size = SHAPES[name]
        before = 0.0
        for doubling in range(options.doublings + 1):
            source = make(size << doubling).encode()
            seconds, parse, peak, found, fixes = min(apart(source) for _ in range(options.rounds))
            growth = f"{seconds / before:6.2f}" if before else " " * 6
            sizes = f"{size << doubling:>6} {len(source) / 1000:>7.0f}"
            print(
                f"{name:<10} {sizes} {seconds:>7.2f} {growth} {parse:>7.2f} {peak:>6.0f} {found:>6} {fixes:>6}",
                flush=True,
            )
            before = seconds
            if seconds > options.seconds:
                break


if __name__ == "__main__":
    main()
