"""A helper decides whether this micro-batch syncs."""

import contextlib

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def sync_when(model, boundary):
    return contextlib.nullcontext() if boundary else model.no_sync()


def to_device(batch, device):
    return {k: v.to(device, non_blocking=True) for k, v in batch.items()}


def train_retriever(towers: nn.Module, loader, device, accumulate: int):
    ddp_model = DDP(towers.to(device), device_ids=[device.index])
    adamw = torch.optim.AdamW(ddp_model.parameters(), lr=2e-5)
    linear = torch.optim.lr_scheduler.LinearLR(adamw, 1.0, 0.0, total_iters=len(loader) // accumulate)
    adamw.zero_grad()
    for i, batch in enumerate(loader):
        batch = to_device(batch, device)
        boundary = i % accumulate == accumulate - 1 or i == len(loader) - 1
        with sync_when(ddp_model, boundary):
            scores = ddp_model(batch["query"], batch["passages"])
            loss = nn.functional.cross_entropy(scores, batch["positive"])
            (loss / accumulate).backward()
        if boundary:
            nn.utils.clip_grad_norm_(ddp_model.parameters(), max_norm=2.0)
            adamw.step()
            linear.step()
            adamw.zero_grad()
