"""What a fix may do to training, and what it may not: the same program before and after, told apart by its events."""

from __future__ import annotations

import pytest

from gradlint.machine.effects import Licence, harm
from gradlint.rule import Aspect
from tests.paths.tracing import paths

LOOP = """\
import torch


def train(model, other, loader, n):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    second = torch.optim.SGD(other.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    for i, (x, y) in enumerate(loader):
        loss = (model(x) - y).pow(2).mean() / n
        loss.backward()
        (other(x).mean() / n).backward()
        if (i + 1) % n == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            second.step()
            second.zero_grad()
"""


def _harm(old: str, new: str, *aspects: Aspect, of: frozenset[str] | None = None, source: str = LOOP) -> str | None:
    assert old in source
    return harm(paths(source), paths(source.replace(old, new)), Licence(frozenset(aspects), of))


def test_the_same_program_is_no_harm() -> None:
    assert _harm("loss.backward()", "loss.backward()  # the same") is None


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("        loss.backward()\n", "        if (i + 1) % n == 0:\n            loss.backward()\n", "back-propagated"),
        ("            optimizer.step()\n", "            optimizer.step()\n            optimizer.step()\n", "steps"),
        ("            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n", "", "clips"),
        ("            scheduler.step()\n", "", "steps of the scheduler"),
        ("            second.zero_grad()\n", "", "clearings"),
        ("            second.step()\n            second.zero_grad()\n", "", "steps"),
        ("loss = (model(x) - y).pow(2).mean() / n", "loss = (model(x) - y).pow(2).mean()", "order of something else"),
    ],
)
def test_nothing_may_change_without_a_licence(old: str, new: str, reason: str) -> None:
    assert reason in (_harm(old, new) or "")


def test_what_a_finding_complains_of_may_change() -> None:
    clip = "            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    moved = LOOP.replace(clip, "").replace("            optimizer.step()\n", "            optimizer.step()\n" + clip)
    assert harm(paths(moved), paths(LOOP), Licence(frozenset({Aspect.CLIPS}), None)) is None
    assert harm(paths(moved), paths(LOOP), Licence(frozenset({Aspect.UNSCALES}), None)) is not None


def test_no_licence_lets_a_backward_vanish() -> None:
    """Under the boundary, N - 1 of N micro-batches would never be back-propagated."""
    everything_else = set(Aspect) - {Aspect.BACKWARDS}
    old = "        loss.backward()\n"
    assert _harm(old, "", *everything_else) is not None
    assert _harm(old, "        if (i + 1) % n == 0:\n            loss.backward()\n", *everything_else) is not None


def test_other_optimizers_stay_as_they_were() -> None:
    old, new = "            second.zero_grad()\n", "        second.zero_grad()\n"
    before = paths(LOOP)
    mine = next(ref.id for ref in before[0].optimizers.values() if ref.text == "optimizer")
    assert _harm(old, new, Aspect.CLEARS, Aspect.USED, of=frozenset({mine})) is not None
    assert _harm(old, new, Aspect.CLEARS, Aspect.USED) is None


def test_each_step_uses_the_backwards_that_it_used() -> None:
    """A clearing at the head of a loop that every micro-batch passes erases the window."""
    old = "        loss = (model(x)"
    new = "        optimizer.zero_grad()\n        loss = (model(x)"
    assert "a step would use" in (_harm(old, new, Aspect.CLEARS) or "")


def test_what_moves_may_not_vanish() -> None:
    assert "none left" in (_harm("            optimizer.zero_grad()\n", "", Aspect.CLEARS) or "")


def test_a_loss_is_not_divided_beside_divided_gradients() -> None:
    raw = LOOP.replace("pow(2).mean() / n", "pow(2).mean()").replace(
        "            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
        "            for p in model.parameters():\n                p.grad.div_(n)\n",
    )
    source = raw.replace("pow(2).mean()\n", "pow(2).mean() / n\n")
    assert "divided already" in (harm(paths(raw), paths(source), Licence(frozenset({Aspect.DIVISION}), None)) or "")


DDP = """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from contextlib import nullcontext


def train(net, loader, n):
    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y) in enumerate(loader):
        with nullcontext():
            ((model(x) - y).pow(2).mean() / n).backward()
        if (i + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("context", "harmless"),
    [
        ("nullcontext() if (i + 1) % n == 0 else model.no_sync()", True),
        ("model.no_sync() if (i + 1) % n == 0 else nullcontext()", False),
        ("model.no_sync()", False),
    ],
)
def test_the_window_that_is_stepped_synchronises(context: str, harmless: bool) -> None:
    reason = _harm("nullcontext():", f"{context}:", Aspect.SYNC, source=DDP)
    assert (reason is None) == harmless


def test_licences_add_up() -> None:
    both = Licence(frozenset({Aspect.CLIPS}), frozenset({"a"})) | Licence(
        frozenset({Aspect.UNSCALES}), frozenset({"b"})
    )
    assert both.of("a") == {Aspect.CLIPS, Aspect.UNSCALES}
    assert both.of("c") == frozenset()
    assert (both | Licence(frozenset({Aspect.UPDATES}), None)).of("c") >= {Aspect.UPDATES, Aspect.CLIPS}


def test_a_boundary_is_everybodys() -> None:
    licence = Licence(frozenset({Aspect.BOUNDARY}), frozenset({"a"}))
    assert Aspect.STEPS in licence.of("b")
    assert Aspect.BACKWARDS not in licence.of("b")
