# options: --nproc 2 --steps 4
"""Only the backward is inside no_sync, but DDP asks in the forward."""
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
optimizer.zero_grad()
for i, x in enumerate(torch.randn(60, 4, 4)):
    last = (i + 1) % WINDOW == 0
    loss = nn.functional.mse_loss(model(x), x[:, :1]) / WINDOW  # confirmed: GL502
    with nullcontext() if last else model.no_sync():
        loss.backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
