"""What is decided by what stands in an expression is not decided by the letters of its text."""

from __future__ import annotations

import pytest

from gradlint.events import Mark, Schedule, Zero
from tests.paths.tracing import happened, usual


@pytest.mark.parametrize(
    ("iterable", "finite"),
    [
        ("loader", True),
        ("motorcycle_loader", True),
        ("accounts.discount(3)", True),
        ("itertools.cycle(loader)", False),
        ("infinite_loader", False),
        ("iter(loader)", False),
        ("loader.train_iter()", False),
    ],
)
def test_a_loader_that_comes_to_an_end(iterable: str, finite: bool) -> None:
    source = f"""
        import itertools
        import torch
        def train(model, optimizer, loader, motorcycle_loader, infinite_loader, accounts):
            for x in {iterable}:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
        """
    assert {mark.loader for mark in usual(source).events if isinstance(mark, Mark)} == {finite}


@pytest.mark.parametrize(
    ("condition", "whole"),
    [
        ("p.requires_grad", True),
        ("p.grad is not None", True),
        ("p.grad != None", True),
        ("p.requires_grad and p.grad is not None", True),
        ("'head' in n", False),
        ("'requires_grad' not in n", False),
        ("p.requires_grad and 'head' in n", False),
    ],
)
def test_a_comprehension_over_all_that_have_gradients(condition: str, whole: bool) -> None:
    source = f"""
        import torch
        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in loader:
                for p in [p for n, p in model.named_parameters() if {condition}]:
                    p.grad = None
                model(x).mean().backward()
                optimizer.step()
        """
    assert any(isinstance(event, Zero) for event in happened(usual(source))) is whole


@pytest.mark.parametrize(
    ("condition", "whole"),
    [
        ("p.grad is not None", True),
        ("old.downgraded()", True),
        ("torch.isfinite(p.grad).all()", False),
        ("has_large_grad(p)", False),
    ],
)
def test_a_condition_that_picks_some(condition: str, whole: bool) -> None:
    source = f"""
        import torch
        def train(model, loader, old):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in loader:
                for p in model.parameters():
                    if {condition}:
                        p.grad = None
                model(x).mean().backward()
                optimizer.step()
        """
    assert any(isinstance(event, Zero) for event in happened(usual(source))) is whole


@pytest.mark.parametrize(
    ("rate", "over"),
    [
        ("args.lr / args.n", "args.n"),
        ("args.lr / args.n * 2", "args.n"),
        ("rate", "args.n"),
        ("args.lr", ""),
        ('args["optim/lr"]', ""),
        ("args.lr * 2", ""),
    ],
)
def test_a_learning_rate_that_is_divided(rate: str, over: str) -> None:
    source = f"""
        import torch
        def train(model, loader, args):
            rate = args.lr / args.n
            optimizer = torch.optim.SGD(model.parameters(), lr={rate})
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
        """
    assert {optimizer.rate_over for optimizer in usual(source).optimizers.values()} == {over}


@pytest.mark.parametrize(
    ("length", "per_batch"),
    [("len(loader)", True), ("steps", True), ("len(loader) // n", False), ("maxlen(loader)", False)],
)
def test_a_schedule_that_counts_batches(length: str, per_batch: bool) -> None:
    source = f"""
        import torch
        def train(model, loader, n):
            steps = 10 * len(loader)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max={length})
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
                scheduler.step()
        """
    assert {event.per_batch for event in happened(usual(source)) if isinstance(event, Schedule)} == {per_batch}


@pytest.mark.parametrize(("value", "asked"), [("torch.float16", True), ('"16-mixed"', True), ("16", False)])
def test_a_choice_that_matters_to_precision(value: str, asked: bool) -> None:
    source = f"""
        import torch
        def train(model, loader, optimizer, big):
            chosen = {value} if big else None
            for x in loader:
                optimizer.zero_grad()
                model(x, chosen).mean().backward()
                optimizer.step()
        """
    assert ("big" in usual(source).decisions) is asked
