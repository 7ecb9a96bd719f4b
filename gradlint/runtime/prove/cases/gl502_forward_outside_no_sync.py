"""Only the backward stands in no_sync, but DDP asks in the forward."""

from contextlib import nullcontext

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gradlint.runtime.prove.lab import batches, join, network

ACCUMULATION_STEPS = 4

join()
model = DistributedDataParallel(network())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = batches(8)

optimizer.zero_grad()
for i, (x, y) in enumerate(loader):
    last = (i + 1) % ACCUMULATION_STEPS == 0 or i + 1 == len(loader)
    loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS  # expect: GL502
    with nullcontext() if last else model.no_sync():
        loss.backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
