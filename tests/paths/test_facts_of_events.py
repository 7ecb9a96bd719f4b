"""What an event knows: how its loss was normalised, whether it synchronises, who else takes part."""

from __future__ import annotations

import pytest

from gradlint.events import Backward, EditKind, Norm, Step, Sync, Update, Wrap, Zero
from gradlint.knowledge.frameworks.accelerate import ACCELERATE
from gradlint.paths.run import TURNS
from tests.paths.tracing import happened, paths, usual


@pytest.mark.parametrize(
    ("loss", "norm", "divisor"),
    [
        ("criterion(model(x), y)", Norm.RAW, ""),
        ("criterion(model(x), y) / n", Norm.DIVIDED, "n"),
        ("criterion(model(x), y).div(n)", Norm.DIVIDED, "n"),
        ("criterion(model(x), y) * w", Norm.WEIGHTED, ""),
        ("criterion(model(x), y) * 0.5", Norm.WEIGHTED, ""),
        ("criterion(model(x), y) / n + criterion(model(x), y)", Norm.RAW, ""),
        ("criterion(model(x), y) / (i + 1)", Norm.DIVIDED_BY_COUNTER, "i + 1"),
        ("model(x).sum()", Norm.SUMMED, ""),
        ("model(x).mean()", Norm.RAW, ""),
        ("torch.nn.functional.mse_loss(model(x), y, reduction='sum')", Norm.SUMMED, ""),
        ("torch.nn.MSELoss(reduction='sum')(model(x), y)", Norm.SUMMED, ""),
        ("summed(model(x), y)", Norm.SUMMED, ""),
    ],
)
def test_how_a_loss_is_normalised(loss: str, norm: Norm, divisor: str) -> None:
    source = f"""
        import torch
        def train(model, optimizer, loader, criterion, n, w):
            summed = torch.nn.CrossEntropyLoss(reduction="sum")
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                loss = {loss}
                loss.backward()
                optimizer.step()
        """
    backward = next(event for event in happened(usual(source)) if isinstance(event, Backward))
    assert (backward.norm, backward.divisor) == (norm, divisor)


@pytest.mark.parametrize(
    ("forward", "backward", "syncs"),
    [
        ("", "", (Sync.ON, Sync.ON)),
        ("with model.no_sync():", "", (Sync.OFF, Sync.ON)),
        ("", "with model.no_sync():", (Sync.ON, Sync.OFF)),
        ("with model.no_sync():", "with model.no_sync():", (Sync.OFF, Sync.OFF)),
    ],
)
def test_where_synchronisation_is_off(forward: str, backward: str, syncs: tuple[Sync, Sync]) -> None:
    source = f"""
        import torch
        def train(net, loader):
            model = torch.nn.parallel.DistributedDataParallel(net)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in loader:
                optimizer.zero_grad()
                {forward or "if True:"}
                    loss = model(x).mean()
                {backward or "if True:"}
                    loss.backward()
                optimizer.step()
        """
    event = next(event for event in happened(usual(source)) if isinstance(event, Backward))
    assert event.wrap is Wrap.DDP
    assert (event.forward_sync, event.sync) == syncs
    assert (event.no_sync is not None) is (syncs[1] is Sync.OFF)


def test_all_reduce_of_a_gradient_is_an_edit() -> None:
    source = """
        import torch
        import torch.distributed as dist
        def train(net, loader):
            model = torch.nn.parallel.DistributedDataParallel(net)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                for p in model.parameters():
                    dist.all_reduce(p.grad)
                optimizer.step()
        """
    edits = [event for event in happened(usual(source)) if type(event).__name__ == "Edit"]
    assert len(edits) == TURNS
    assert {getattr(edit, "kind", None) for edit in edits} == {EditKind.REDUCE}


def test_a_framework_takes_part_by_name() -> None:
    source = """
        from accelerate import Accelerator
        def train(model, optimizer, loader):
            accelerator = Accelerator()
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for x in loader:
                optimizer.zero_grad()
                accelerator.backward(model(x).mean())
                optimizer.step()
        """
    events = happened(usual(source))
    assert {event.framework for event in events if isinstance(event, Backward | Step)} == {ACCELERATE}


@pytest.mark.parametrize(
    ("around", "kept"),
    [
        ("with torch.no_grad():", False),
        ("with torch.inference_mode(False):", True),
        ("with torch.no_grad(), torch.enable_grad():", True),
        ("with torch.enable_grad(), torch.no_grad():", False),
        ("with torch.no_grad(), torch.set_grad_enabled(True):", True),
        ("with contextlib.ExitStack() as stack:\n                    stack.enter_context(torch.no_grad())", False),
    ],
)
def test_where_gradients_are_kept(around: str, kept: bool) -> None:
    source = f"""
        import contextlib
        import torch
        def train(loader):
            model = torch.nn.Linear(2, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in loader:
                optimizer.zero_grad()
                {around}
                    y = model(x)
                y.mean().backward()
                optimizer.step()
        """
    backward = next(event for event in happened(usual(source)) if isinstance(event, Backward))
    assert bool(backward.params.owners) is kept


@pytest.mark.parametrize("scale", ["", "None", "2.0", "new_scale=None"])
def test_an_update_is_one_whatever_scale_it_is_given(scale: str) -> None:
    source = f"""
        import torch
        def train(model, optimizer, loader):
            scaler = torch.amp.GradScaler()
            for x in loader:
                optimizer.zero_grad()
                scaler.scale(model(x).mean()).backward()
                scaler.step(optimizer)
                scaler.update({scale})
        """
    assert sum(isinstance(event, Update) for event in happened(usual(source))) == TURNS


def test_a_strategy_steps_and_clears_with_the_optimizer_that_it_is_given() -> None:
    path = usual("""
        import torch

        def train(model, strategy, loader):
            optimizer = torch.optim.SGD(model.parameters())
            for x in loader:
                strategy.zero_grad(optimizer)
                model(x).mean().backward()
                strategy.step(optimizer)
    """)
    touched = {event.optimizer for event in happened(path) if isinstance(event, Zero | Step)}
    assert touched == set(path.optimizers)
    assert len(touched) == 1


def test_the_default_of_a_field_does_not_decide() -> None:
    found = paths("""
        from dataclasses import dataclass

        @dataclass
        class Args:
            repeat: int = 0

        def train(model, optimizer, loader):
            args = Args()
            for x in loader:
                model(x).mean().backward()
                optimizer.step()
                if args.repeat == 0:
                    optimizer.zero_grad()
    """)
    assert {any(isinstance(event, Zero) for event in happened(path)) for path in found} == {True, False}
