"""What is decided by what stands in an expression is not decided by the letters of its text."""

from __future__ import annotations

import pytest

from gradlint.events import Backward, Mark, Norm, Schedule, Step, Sync, Unscale, Zero
from tests.paths.tracing import happened, paths, usual


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


@pytest.mark.parametrize(
    ("context", "sync"),
    [
        ('timer("no_sync_probe")', Sync.ON),
        ("async_timer()", Sync.ON),
        ("maybe_no_sync(model)", Sync.MANAGED),
        ("sync_context(model)", Sync.MANAGED),
        ('model.no_sync() if chosen(x) else timer("late")', Sync.MANAGED),
        ('timer("no_sync") if chosen(x) else timer("late")', Sync.ON),
    ],
)
def test_a_context_that_has_to_do_with_syncing(context: str, sync: Sync) -> None:
    source = f"""
        import torch
        from tools import timer, async_timer, maybe_no_sync, sync_context
        def train(net, loader, optimizer, chosen):
            model = torch.nn.parallel.DistributedDataParallel(net)
            for x in loader:
                with {context}:
                    model(x).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
        """
    assert {event.sync for event in happened(usual(source)) if isinstance(event, Backward)} == {sync}


@pytest.mark.parametrize(
    ("condition", "unscaled"),
    [("not self.unscaled", 1), ("state is not State.UNSCALED", 1), ('asks("unscaled")', 2)],
)
def test_a_flag_that_says_whether_gradients_are_unscaled(condition: str, unscaled: int) -> None:
    """Whoever asks it gets the right answer: the second time they are."""
    source = f"""
        import torch
        class Trainer:
            def update(self, loss, optimizer, scaler, state, asks):
                scaler.scale(loss).backward()
                if {condition}:
                    scaler.unscale_(optimizer)
                if {condition}:
                    scaler.unscale_(optimizer)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        """
    first = [event for event in happened(usual(source)) if isinstance(event, Unscale | Step)]
    assert [type(event) for event in first].index(Step) == unscaled


@pytest.mark.parametrize(
    ("value", "clears"), [("torch.zeros_like(p)", True), ("add_noise(torch.zeros_like(p))", False)]
)
def test_a_gradient_of_zeros(value: str, clears: bool) -> None:
    source = f"""
        import torch
        from tools import add_noise
        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in loader:
                model(x).mean().backward()
                optimizer.step()
                for p in model.parameters():
                    p.grad = {value}
        """
    assert any(isinstance(event, Zero) for event in happened(usual(source))) is clears


@pytest.mark.parametrize(
    ("gradient", "norm"),
    [
        ("torch.ones_like(loss)", Norm.RAW),
        ("ones", Norm.RAW),
        ("None", Norm.RAW),
        ("torch.ones_like(loss) / 4", Norm.WEIGHTED),
        ("torch.full_like(loss, 0.25)", Norm.WEIGHTED),
        ('weights["ones"]', Norm.WEIGHTED),
        ("share_of(None)", Norm.WEIGHTED),
    ],
)
def test_what_a_backward_is_started_with(gradient: str, norm: Norm) -> None:
    source = f"""
        import torch
        def train(model, loader, weights, share_of):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in loader:
                optimizer.zero_grad()
                loss = model(x).sum(1)
                ones = torch.ones_like(loss)
                model(x).backward(gradient={gradient})
                optimizer.step()
        """
    assert {event.norm for event in happened(usual(source)) if isinstance(event, Backward)} == {norm}


@pytest.mark.parametrize(
    ("condition", "aborts"),
    [
        ("not torch.isfinite(loss)", True),
        ("loss.item() > limit", True),
        ("limit <= self.grad_norm", True),
        ('state["found_inf"]', True),
        ("limit > 3", False),
        ('log("norm > 3")', False),
        ("step > len(losses)", False),
    ],
)
def test_a_batch_that_went_wrong(condition: str, aborts: bool) -> None:
    source = f"""
        import torch
        def train(self, model, loader, limit, state, step, losses, log):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in loader:
                loss = model(x).mean()
                loss.backward()
                if {condition}:
                    optimizer.zero_grad()
                    continue
                optimizer.step()
                optimizer.zero_grad()
        """
    found = [event for path in paths(source) for event in path.events if isinstance(event, Zero)]
    assert any(event.aborts for event in found) is aborts
