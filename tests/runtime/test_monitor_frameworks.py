"""GradientMonitor on models and optimizers that Accelerate and Fabric have wrapped."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gradlint.runtime import GradientMonitor
from tests.runtime.monitored import loss_of, network

pytestmark = pytest.mark.slow


def test_accelerate() -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    plain = network()
    model, optimizer = accelerator.prepare(plain, torch.optim.AdamW(plain.parameters()))
    with GradientMonitor(model, optimizer, every=1) as monitor:
        for _ in range(12):
            with accelerator.accumulate(model):
                accelerator.backward(loss_of(model, torch.randn(8, 4)))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 0.01)
                optimizer.step()
                optimizer.zero_grad()
    assert (monitor.steps, monitor.clips[0].calls) == (6, 6)
    assert monitor.samples[0].layers[0].name == "0.weight"
    assert monitor.samples[0].used == pytest.approx(0.01, rel=1e-3)


def test_fabric() -> None:
    fabric: Any = pytest.importorskip("lightning_fabric").Fabric(accelerator="cpu", devices=1)
    plain = network()
    model, optimizer = fabric.setup(plain, torch.optim.AdamW(plain.parameters()))
    with GradientMonitor(model, optimizer, every=1) as monitor:
        for _ in range(6):
            optimizer.zero_grad()
            fabric.backward(loss_of(model, torch.randn(8, 4)))
            fabric.clip_gradients(model, optimizer, max_norm=0.01)
            optimizer.step()
    assert (monitor.steps, monitor.clips[0].calls) == (6, 6)
    assert monitor.samples[0].layers[0].name == "0.weight"
    assert monitor.data.optimizer == "AdamW"
