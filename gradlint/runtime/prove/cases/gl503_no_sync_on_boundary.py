"""The ranks exchange all micro-batches but the last, and then step, each on gradients of its own."""

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
    with model.no_sync() if last else nullcontext():
        loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS
        loss.backward()  # expect: GL503
    if last:
        optimizer.step()
        optimizer.zero_grad()
