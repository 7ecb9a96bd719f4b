"""What is decided by what stands in an expression is not decided by the letters of its text."""

from __future__ import annotations

import pytest

from gradlint.events import Mark, Zero
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
