"""The schedule runs four times as fast as the updates that it was laid out for."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

ACCUMULATION_STEPS = 4

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = batches(12)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.1, total_iters=3)

optimizer.zero_grad()
for i, (x, y) in enumerate(loader):
    loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS
    loss.backward()
    if (i + 1) % ACCUMULATION_STEPS == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()
    scheduler.step()  # expect: GL305
