"""Small models and data. The inputs are large, so that the gradients are too, and clips have something to cut."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

FEATURES, CLASSES = 4, 3


def rank() -> int:
    """Of this process; each rank has data of its own."""
    return int(os.environ.get("RANK", "0"))


def source() -> torch.Generator:
    return torch.Generator().manual_seed(100 + rank())


def net(inputs: int = FEATURES, outputs: int = CLASSES) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 6), nn.Tanh(), nn.Linear(6, outputs))


def wide(inputs: int = FEATURES, outputs: int = CLASSES) -> nn.Module:
    """One layer: what goes in large comes out as large gradients."""
    return nn.Linear(inputs, outputs)


def features(count: int, scale: float = 20.0, width: int = FEATURES) -> Tensor:
    return torch.randn(count, width, generator=source()) * scale


def labels(count: int, classes: int = CLASSES) -> Tensor:
    return torch.randint(0, classes, (count,), generator=source())


def loader(*columns: Tensor, batch: int = 4) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*columns), batch_size=batch)


def classified(batches: int, batch: int = 4, scale: float = 20.0) -> DataLoader[Any]:
    """Features with a class each."""
    return loader(features(batches * batch, scale), labels(batches * batch), batch=batch)


def regressed(batches: int, batch: int = 4, outputs: int = 1, scale: float = 20.0) -> DataLoader[Any]:
    """Features with numbers to guess."""
    wanted = torch.randn(batches * batch, outputs, generator=source()) * scale
    return loader(features(batches * batch, scale), wanted, batch=batch)


class Records(Dataset[dict[str, Tensor]]):
    """Columns with names."""

    def __init__(self, **columns: Tensor) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: column[index] for name, column in self._columns.items()}


def records(batch: int = 4, **columns: Tensor) -> DataLoader[Any]:
    return DataLoader(Records(**columns), batch_size=batch)


def endless(make: Callable[[], Any]) -> Iterator[Any]:
    """As many as are asked for."""
    return (make() for _ in itertools.count())
