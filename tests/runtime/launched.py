"""Scripts for the tests of the launching, and what is asked of them afterwards."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from pathlib import Path

#: a loop that never ends by itself
TRAIN = """
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(steps=10**9):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 2)).mean().backward()
        optimizer.step()
"""


def write(folder: Path, files: Mapping[str, str]) -> dict[str, bytes]:
    """Puts files there; what they hold, for `contents` later."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """All files under it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def is_alive(pid: int) -> bool:
    """It runs; one that is dead and was not collected by its parent does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return Path("/proc").is_dir() is False
