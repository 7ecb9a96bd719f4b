# options: --nproc 2 --steps 4
"""Accumulation under DDP as it should be: no_sync on all micro-batches but the last, over forward and backward."""
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WINDOW = 2
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for x in torch.randn(30, WINDOW, 8, 4):
    optimizer.zero_grad()
    for j in range(WINDOW):
        with model.no_sync() if j < WINDOW - 1 else nullcontext():
            loss = nn.functional.mse_loss(model(x[j]), x[j][:, :1]) / WINDOW
            loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
dist.destroy_process_group()
