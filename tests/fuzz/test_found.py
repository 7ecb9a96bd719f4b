"""Inputs that broke something once, as `python -m benchmarks.fuzz` found them and made them small."""

from __future__ import annotations

import pytest

from tests.fuzz.holds import check
from tests.fuzz.mutants import Input

FOUND = {
    "form feeds in front of a block": Input(
        "train.py",
        b"def train(model, optimizer, loader):\n\x0c    grad_scaler = StaticScaler(1024.0)\n"
        b"\x0c    for batch in loader:\n"
        b"\x0c        optimizer.zero_grad()\n\x0c        grad_scaler.scale(model(batch).mean()).backward()\n"
        b"\x0c        grad_scaler.step(optimizer, model.parameters())\n\x0c",
    ),
    "unused suppression behind a backslash": Input(
        "train.py", b"for x in loader:\n    with torch():()\\\n #gradlint:ignore[GL4]"
    ),
    "enumerate of nothing": Input(
        "train.py",
        b"def train(loader, accum):\n    for i, x in enumerate():\n        loss.backward()\n"
        b"        if i % accum == accum - 1:\n            optimizer.step()\n            optimizer.zero_grad()\n",
    ),
    "enumerate into nothing": Input(
        "train.py",
        b"def train(loader, accum):\n    for () in enumerate(loader):\n        loss.backward()\n"
        b"        if i % accum == accum - 1:\n            optimizer.step()\n            optimizer.zero_grad()\n",
    ),
}


@pytest.mark.parametrize("given", FOUND.values(), ids=FOUND)
def test_what_was_found(given: Input) -> None:
    check(given)
