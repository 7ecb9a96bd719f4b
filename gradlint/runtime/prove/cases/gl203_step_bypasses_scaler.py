"""The optimizer steps by itself, on gradients that are still multiplied by the scale."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import DEVICE, batches, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler(DEVICE, init_scale=1024.0)

for x, y in batches(4):
    optimizer.zero_grad()
    with torch.autocast(DEVICE, dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    optimizer.step()  # expect: GL203
    scaler.update()
