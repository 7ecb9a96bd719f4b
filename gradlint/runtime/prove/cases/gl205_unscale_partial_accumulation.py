"""Every micro-batch unscales what has been summed so far."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import DEVICE, batches, network

ACCUMULATION_STEPS = 4

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler(DEVICE, init_scale=1024.0)
loader = batches(12)

optimizer.zero_grad()
for i, (x, y) in enumerate(loader):
    with torch.autocast(DEVICE, dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)  # expect: GL205
    if (i + 1) % ACCUMULATION_STEPS == 0 or i + 1 == len(loader):
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
