"""GradientMonitor on parameters, optimizers and models of all kinds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from gradlint.runtime import GradientMonitor
from tests.runtime.monitored import backward, loss_of, network, total_norm


class Odd(nn.Module):
    """Sparse, half, complex, double, empty, shared, frozen and unused parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 4, sparse=True)
        self.short = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
        self.waves = nn.Parameter(torch.ones(4, dtype=torch.complex64))
        self.long_ = nn.Parameter(torch.ones(4, dtype=torch.float64))
        self.empty = nn.Parameter(torch.ones(0, 4))
        self.one = nn.Linear(4, 4, bias=False)
        self.other = nn.Linear(4, 4, bias=False)
        self.other.weight = self.one.weight
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, words: Tensor) -> Tensor:
        found = self.other(self.one(self.words(words)))
        parts = self.short.float() + (self.waves * (1 + 2j)).real + self.long_.float()
        total: Tensor = (found * parts).sum() + self.empty.sum()
        return total


def test_parameters_of_all_kinds() -> None:
    torch.manual_seed(0)
    model = Odd()
    optimizer = torch.optim.SGD(
        [{"params": list(model.parameters())[:3]}, {"params": list(model.parameters())[3:]}], lr=1e-3
    )
    with GradientMonitor(model, optimizer, every=1) as monitor:
        for _ in range(2):
            optimizer.zero_grad()
            backward(model(torch.tensor([1, 7, 7])))
            optimizer.step()
            last = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert monitor.data.notes == []
    layers = {layer.name: layer for layer in monitor.samples[-1].layers}
    assert set(layers) == {"words.weight", "short", "waves", "long_", "one.weight"}
    dense = last["words.weight"].to_dense()
    assert layers["words.weight"].norm == pytest.approx(float(dense.norm()), rel=1e-5)
    assert layers["words.weight"].mean == pytest.approx(float(dense.mean()), rel=1e-4)
    assert layers["words.weight"].std == pytest.approx(float(dense.std(correction=0)), rel=1e-4)
    assert layers["short"].norm == pytest.approx(float(last["short"].float().norm()), rel=1e-3)
    assert layers["waves"].norm == pytest.approx(float(last["waves"].abs().norm()), rel=1e-5)
    assert not last["words.weight"].is_coalesced()


def test_half_precision_norms_do_not_overflow() -> None:
    weight = nn.Parameter(torch.ones(100, dtype=torch.float16))
    model = nn.ParameterDict({"weight": weight})
    weight.grad = torch.full_like(weight, 60000.0)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    with GradientMonitor(model, optimizer, every=1) as monitor:
        optimizer.step()
    (layer,) = monitor.samples[0].layers
    assert layer.norm == pytest.approx(600000.0, rel=1e-3)
    assert layer.mean == pytest.approx(60000.0, rel=1e-3)


def test_parameters_that_come_later_and_parameters_of_no_model() -> None:
    model, stranger = network(), nn.Parameter(torch.ones(2))
    groups: list[dict[str, Any]] = [{"params": model[0].parameters()}, {"params": [stranger], "lr": 0.5}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    with GradientMonitor(model, optimizer, every=1) as monitor:
        backward(loss_of(model, torch.randn(4, 4)) + stranger.sum())
        optimizer.step()
        optimizer.add_param_group({"params": model[2].parameters()})
        optimizer.step()
    names = [[layer.name for layer in sample.layers] for sample in monitor.samples]
    assert names[0] == ["0.weight", "0.bias", "param_groups[1][0]"]
    assert names[1] == ["0.weight", "0.bias", "2.weight", "2.bias", "param_groups[1][0]"]
    assert monitor.samples[0].rates == (0.1, 0.5)


def test_a_closure_makes_its_gradients_inside_of_the_step() -> None:
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    batch = torch.randn(16, 4)
    with GradientMonitor(model, optimizer, every=1) as monitor:

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            backward(loss)
            clip_grad_norm_(model.parameters(), 0.1)
            return loss

        step: Any = optimizer.step
        for _ in range(2):
            step(closure)
            norm = total_norm(model)
    assert monitor.steps == 2
    assert monitor.samples[-1].used == pytest.approx(norm, rel=1e-4)
    assert monitor.samples[-1].clipped


@pytest.mark.slow
def test_compiled_models_keep_their_names_and_compiled_steps_their_graph() -> None:
    from torch._dynamo.testing import CompileCounter

    model = network()
    compiled: Any = torch.compile(model, backend="eager")
    optimizer: Any = torch.optim.Adam(model.parameters())
    counter = CompileCounter()
    optimizer.step = torch.compile(optimizer.step, backend=counter)
    with GradientMonitor(compiled, optimizer, every=1) as monitor:
        for _ in range(12):
            optimizer.zero_grad()
            backward(loss_of(compiled, torch.randn(4, 4)))
            optimizer.step()
    assert counter.frame_count == 1
    assert monitor.steps == 12
    assert [layer.name for layer in monitor.samples[-1].layers][:2] == ["0.weight", "0.bias"]


@pytest.mark.cuda
def test_between_samples_nothing_waits_for_the_gpu() -> None:
    model = network().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(16, 4, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        monitor.loss(loss)
        backward(loss)
        clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()

    with GradientMonitor(model, optimizer, every=100) as monitor:
        step()
        torch.cuda.set_sync_debug_mode("error")
        try:
            for _ in range(5):
                step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert monitor.data.notes == []
    assert (monitor.steps, len(monitor.samples), monitor.clips[0].calls) == (6, 1, 6)
    assert monitor.samples[0].used == pytest.approx(0.01, rel=1e-3)
