"""What one function does with a name says nothing of the same name in another function."""

from __future__ import annotations

import pytest

from gradlint.events import Backward, Step, Sync
from gradlint.paths.run import TURNS
from gradlint.states import Path
from tests.paths.tracing import happened, paths, windows

#: what another function of the file does, and a name that it does it with
OTHER = {
    "nothing": "",
    "modulus": "def other(loader, size):\n    for i, x in enumerate(loader):\n        print(i % size)\n",
    "varied": "def other(loader):\n    for late in loader:\n        print(late)\n",
    "zeroed": "def other(thing):\n    thing.zero_grad()\n",
    "owner": "def other(thing):\n    print(list(thing.parameters()))\n",
    "set": "def other():\n    switched = True\n    print(switched)\n",
}


def _train(source: str, other: str) -> Path:
    """The usual path through `train`."""
    found = [path for path in paths(f"import torch\n{OTHER[other]}{source}") if path.entry == "train"]
    return found[0]


@pytest.mark.parametrize("other", ["nothing", "modulus"])
def test_a_window_of_a_written_size(other: str) -> None:
    source = """
def train(loader, model, optimizer, criterion):
    size = 5
    for epoch in range(2):
        optimizer.zero_grad()
        for number in range(size):
            criterion(model(next(loader))).backward()
        optimizer.step()
"""
    assert set(windows(_train(source, other))) == {5}


@pytest.mark.parametrize("other", ["nothing", "varied"])
def test_a_flag_that_does_not_change(other: str) -> None:
    source = """
def train(net, loader, late):
    model = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        optimizer.zero_grad()
        if late:
            with model.no_sync():
                model(x).mean().backward()
        optimizer.step()
"""
    first = next(event for event in happened(_train(source, other)) if isinstance(event, Backward))
    assert first.sync is Sync.OFF


@pytest.mark.parametrize("other", ["nothing", "zeroed"])
def test_something_that_is_no_optimizer(other: str) -> None:
    source = """
def train(thing, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        thing.step()
"""
    path = _train(source, other)
    assert {event.text for event in happened(path) if isinstance(event, Step)} == {"optimizer.step()"}


@pytest.mark.parametrize("other", ["nothing", "owner"])
def test_something_that_is_no_model(other: str) -> None:
    source = """
def train(thing, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).mean() + thing(x)
        loss.backward()
        optimizer.step()
"""
    first = next(event for event in happened(_train(source, other)) if isinstance(event, Backward))
    assert first.params.owners == {"model"}


@pytest.mark.parametrize("other", ["nothing", "set"])
def test_a_setting_of_the_module(other: str) -> None:
    source = """
switched = False
def train(model, loader, optimizer):
    for x in loader:
        optimizer.zero_grad()
        if switched:
            model(x).mean().backward()
            optimizer.step()
"""
    found = [path for path in paths(f"import torch\n{OTHER[other]}{source}") if path.entry == "train"]
    assert any(isinstance(event, Step) for path in found for event in happened(path))


def test_flags_of_one_name_with_two_defaults() -> None:
    source = """
def first(optimizer, go=True):
    if go:
        optimizer.step()

def second(optimizer, go=False):
    if go:
        optimizer.step()

def train(model, loader, optimizer):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        first(optimizer)
        second(optimizer)
"""
    assert set(windows(_train(source, "nothing"))) == {1}
    one = source.replace("loader, optimizer):", "loader, optimizer, go):").replace("(optimizer)\n", "(optimizer, go)\n")
    found = [path for path in paths(f"import torch\n{one}") if path.entry == "train"]
    steps = [sum(isinstance(event, Step) for event in happened(path)) for path in found]
    assert set(steps) == {0, 2 * TURNS}  # a flag that is handed on: both, or none


def test_mixed_precision_is_one_switch_for_all() -> None:
    source = """
def first(scaler, optimizer, amp=True):
    if amp:
        scaler.step(optimizer)
    else:
        optimizer.step()

def train(model, loader, optimizer, scaler, amp=False):
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).mean()
        if amp:
            scaler.scale(loss).backward()
        else:
            loss.backward()
        first(scaler, optimizer)
"""
    found = [path for path in paths(f"import torch\n{source}") if path.entry == "train"]
    both = [(a.scaler is None, b.scaler is None) for path in found for a, b in _pairs(path)]
    assert set(both) == {(True, True), (False, False)}


def _pairs(path: Path) -> list[tuple[Backward, Step]]:
    backwards = [event for event in happened(path) if isinstance(event, Backward)]
    return list(zip(backwards, [event for event in happened(path) if isinstance(event, Step)], strict=True))
