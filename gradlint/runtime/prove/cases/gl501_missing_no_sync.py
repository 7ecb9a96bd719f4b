"""Every micro-batch waits for the other ranks, though only the last one of a window has to."""

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
    loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS
    loss.backward()  # expect: GL501
    if (i + 1) % ACCUMULATION_STEPS == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()
