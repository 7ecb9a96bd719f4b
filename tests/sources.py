"""Small sources that many tests share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

CLIP_AFTER_STEP = """\
import torch


def train(model, optimizer, loader):
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""

CLEAN = """\
import torch


def train(model, optimizer, loader):
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch).sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
"""

NO_GRADIENTS = "def add(a, b):\n    return a + b\n"

BROKEN = "def add(a, b:\n    return a + b\n"


def notebook(*cells: str) -> str:
    """A notebook of these code cells, as Jupyter writes it."""
    made: list[dict[str, object]] = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": text.splitlines(True)}
        for text in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def strings_in(value: Any) -> Iterator[str]:
    """All texts in what JSON or YAML holds."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings_in(inner)
