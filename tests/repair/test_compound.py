"""A script with all classic mistakes at once, and what one run makes of it."""

from __future__ import annotations

import pytest

from gradlint.config import Settings
from gradlint.engine import fix, lint

BAD = '''\
"""Trains with every classic mistake at once."""

import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils import clip_grad_value_


def train(net, loader, criterion, rank, epochs, accumulation_steps=4):
    model = DDP(net.to(rank), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
    scaler = torch.amp.GradScaler("cuda")

    for epoch in range(epochs):
        for i, (inputs, targets) in enumerate(loader):
            # start with empty gradients
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                outputs = model(inputs.to(rank))
                loss = criterion(outputs, targets.to(rank))
            scaler.scale(loss).backward()

            if (i + 1) % accumulation_steps == 0:
                scaler.step(optimizer)
                scaler.update()
                # keep gradients in check
                clip_grad_value_(model.parameters(), clip_value=1.0)
                scheduler.step()

            if i % 50 == 0:
                print(f"epoch {epoch} step {i}: loss {loss.item():.4f}")
'''

FIXED = '''\
"""Trains with every classic mistake at once."""

from contextlib import nullcontext

import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils import clip_grad_norm_


def train(net, loader, criterion, rank, epochs, accumulation_steps=4):
    model = DDP(net.to(rank), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
    scaler = torch.amp.GradScaler("cuda")

    for epoch in range(epochs):
        optimizer.zero_grad()
        for i, (inputs, targets) in enumerate(loader):
            with model.no_sync() if (i + 1) % accumulation_steps != 0 and i + 1 != len(loader) else nullcontext():
                with torch.autocast("cuda", dtype=torch.float16):
                    outputs = model(inputs.to(rank))
                    loss = criterion(outputs, targets.to(rank))
                scaler.scale(loss / accumulation_steps).backward()

            if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader):
                # keep gradients in check
                scaler.unscale_(optimizer)
                clip_grad_norm_(model.parameters(), max_norm=1.0)
                scaler.step(optimizer)
                scaler.update()
                scheduler.step()
                # start with empty gradients
                optimizer.zero_grad()

            if i % 50 == 0:
                print(f"epoch {epoch} step {i}: loss {loss.item():.4f}")
'''


def test_one_run_brings_it_into_the_canonical_order() -> None:
    outcome = fix(BAD.encode(), "train.py", Settings(), unsafe=True)
    assert outcome.source.decode() == FIXED
    assert outcome.result.findings == ()


@pytest.mark.slow
def test_the_mistakes_are_those() -> None:
    """Four are seen at once; the others (scaled clip, undivided loss, syncing) lie behind them."""
    found = [f.code for f in lint(BAD.encode(), "train.py", Settings()).findings]
    assert sorted(found) == ["GL101", "GL104", "GL304", "GL402"]
    safe = fix(BAD.encode(), "train.py", Settings(), unsafe=False)
    said = " ".join(f.fix.message for f in safe.applied if f.fix is not None)
    assert all(word in said for word in ("Divide the loss", "no_sync", "Unscale", "in front of the step"))


def test_the_right_script_stays_as_it_is() -> None:
    assert fix(FIXED.encode(), "train.py", Settings(), unsafe=True).source == FIXED.encode()
