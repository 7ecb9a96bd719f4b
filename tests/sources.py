"""Small sources that many tests share."""

from __future__ import annotations

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
