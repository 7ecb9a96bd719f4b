"""What was made of a file is gone when it is done, without Python's collector: it would fill the memory of a run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradlint.config.settings import Settings
from gradlint.engine import lint

TRAIN = """
import torch

from parts import Net, stepper


def train(loader, amp):
    model = Net(8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = stepper(optimizer)
    weigh = lambda loss: loss / 4
    for x, y in loader:
        if amp:
            optimizer.zero_grad()
        loss = weigh(torch.log(model(x).sigmoid()).mean())
        loss.backward()
        step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


if __name__ == "__main__":
    train([], False)
"""
PARTS = """
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, width), nn.Sigmoid(), nn.Linear(width, 1), nn.Sigmoid())

    def forward(self, x):
        return self.inner(x)


def stepper(optimizer):
    def step():
        optimizer.step()

    return step
"""


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What it finds is kept, and nobody looks before the test does."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_nothing_is_left_to_collect(tmp_path: Path) -> None:
    (tmp_path / "gradlint.toml").touch()
    (tmp_path / "parts.py").write_text(PARTS)
    train = tmp_path / "train.py"
    train.write_text(TRAIN)
    settings = Settings(project=True, root=str(tmp_path))
    result = lint(TRAIN.encode(), str(train), settings)  # what is imported for it is not asked about
    gc.collect()
    gc.garbage.clear()
    assert lint(TRAIN.encode(), str(train), settings) == result
    found = [(finding.code, finding.fix is not None) for finding in result.findings]
    assert found == [("GL605", True), ("GL401", False), ("GL101", True)]
    gc.collect()
    left = {type(one).__qualname__ for one in gc.garbage if type(one).__module__.startswith("gradlint")}
    assert not left
