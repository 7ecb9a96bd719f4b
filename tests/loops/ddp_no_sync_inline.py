"""DDP accumulates without syncing, except on the micro-batch of the step."""

import contextlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main(build_model, build_loader, accum=4, epochs=2):
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    model = DDP(build_model().to(rank), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    lr_scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1000, gamma=0.5)
    loader = build_loader(rank, dist.get_world_size())
    criterion = torch.nn.CrossEntropyLoss()

    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        optimizer.zero_grad()
        for i, (x, y) in enumerate(loader):
            x, y = x.to(rank), y.to(rank)
            boundary = (i + 1) % accum == 0 or i + 1 == len(loader)
            with contextlib.nullcontext() if boundary else model.no_sync():
                loss = criterion(model(x), y) / accum
                loss.backward()
            if boundary:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()
    dist.destroy_process_group()
