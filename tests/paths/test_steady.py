"""Turns that need not be run: what is written down for them is what running them would have given."""

from __future__ import annotations

import textwrap

import pytest

from gradlint.paths.steady import Steady
from gradlint.states import Path
from tests.paths.tracing import happened, paths

STEP = """
optimizer.zero_grad()
loss = model(x).mean()
loss.backward()
optimizer.step()
"""

PLAIN = {
    "a loop": ("for x in loader:", STEP),
    "a counter that nothing asks for": ("for i, x in enumerate(loader):", STEP),
    "a condition": ("for x in loader:", "if args.skip:\n    continue" + STEP),
    "a clip": ("for x in loader:", STEP + "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
    "a loop in it": ("for x in loader:", STEP + "for p in model.parameters():\n    p.grad.mul_(0.5)"),
    "a pair that is made anew": ("for x in loader:", "pair = [optimizer, x]" + STEP + "pair[0].zero_grad()"),
    "a loop without an end": ("while True:", "x = next(loader)" + STEP),
    "a loop with ends in it": (
        "while True:",
        "x = next(loader, None)\nif x is None: break" + STEP + "if args.done: break\nif args.skip: continue",
    ),
    "a condition of a loop": ("while not args.done and args.on:", STEP + "x = next(loader)"),
    "a name that a condition gives": ("while (x := next(loader, None)) is not None:", STEP),
    "events in a condition": (
        "while optimizer.step() is None:", "optimizer.zero_grad()\nmodel(args.x).mean().backward()"
    ),
    "something kept": ("for x in loader:", "self.loss = args.last\nargs.last = None" + STEP),
}  # fmt: skip
MOVING = {
    "a window": ("for i, x in enumerate(loader):", STEP.replace("optimizer.step()", "if i % 4 == 0: optimizer.step()")),
    "a counter of its own": ("for x in loader:", "n += 1" + STEP + "if n == 5: optimizer.zero_grad()"),
    "a loop that counts": ("while n < 20:", "n += 1" + STEP + "if n == 5: optimizer.zero_grad()"),
    "a loop that ends by its count": ("while n < 5:", "n += 1" + STEP),
    "a plain sum": ("for x in loader:", "n = n + 1" + STEP + "if n == 5: optimizer.zero_grad()"),
    "a list that grows": ("for x in loader:", "losses.append(model(x).mean())" + STEP),
    "a sum that grows": ("for x in loader:", "total = total + model(x).mean()" + STEP),
    "a counter that lives elsewhere": (
        "for x in loader:", STEP + "if args.global_step % 4 == 0: optimizer.zero_grad()"
    ),
    "an optimizer that is made anew": ("for x in loader:", "optimizer = SGD(model.parameters(), 0.1)" + STEP),
}  # fmt: skip


def _source(head: str, body: str) -> str:
    rows = textwrap.indent(body.strip(), " " * 8)
    return f"""
import torch
from torch.optim import SGD
def train(self, model, optimizer, loader, args):
    n = 0
    total = 0
    losses = []
    {head}
{rows}
    sum(losses).backward()
    if n == 8:
        optimizer.zero_grad()
    if args.total:
        total.backward()
"""


def _both(source: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Path], int]:
    """The paths, which are the same with every turn run, and how many loops were cut short."""
    written = 0
    repeat = Steady.repeat

    def counting(steady: Steady) -> None:
        nonlocal written
        run = steady.over
        repeat(steady)
        written += steady.over > run + 1

    with monkeypatch.context() as patch:
        patch.setattr(Steady, "repeat", counting)
        found = paths(source)
    with monkeypatch.context() as patch:
        patch.setattr(Steady, "reached", lambda *_: False)
        assert paths(source) == found
    return found, written


@pytest.mark.parametrize("name", PLAIN)
def test_turns_that_are_alike_are_run_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, repeated = _both(_source(*PLAIN[name]), monkeypatch)
    assert repeated
    assert {event.frames[0].turn for event in happened(found[0]) if event.frames} == set(range(8))


@pytest.mark.parametrize("name", MOVING)
def test_turns_that_differ_are_all_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, repeated = _both(_source(*MOVING[name]), monkeypatch)
    assert not repeated


def test_the_number_behind_the_loop_is_that_of_the_last_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        _source("for i, x in enumerate(loader):", STEP) + "    if (i + 1) % 3 != 0:\n        optimizer.zero_grad()\n"
    )
    found, repeated = _both(source, monkeypatch)
    assert repeated
    assert [type(event).__name__ for event in happened(found[0])][-1] == "Zero"


@pytest.mark.parametrize(("parameter", "repeats"), [("batch", True), ("batch_idx", False)])
def test_a_function_that_is_called_for_each_batch(
    parameter: str, repeats: bool, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    source = f"""
def training_step(model, optimizer, {parameter}):
    optimizer.zero_grad()
    model({parameter}).mean().backward()
    optimizer.step()
"""
    _, repeated = _both(source, monkeypatch)
    assert bool(repeated) is repeats


def test_steps_are_counted_as_if_they_had_been_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for budget in range(20, 160, 7):
        monkeypatch.setattr("gradlint.paths.explorer.PATH_BUDGET", budget)
        _both(_source(*PLAIN["a loop"]), monkeypatch)
