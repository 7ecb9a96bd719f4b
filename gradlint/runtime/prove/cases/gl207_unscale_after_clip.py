"""The gradients are unscaled when the clip has already seen them."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import DEVICE, batches, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler(DEVICE, init_scale=1024.0)

for x, y in batches(4, spread=5.0):
    optimizer.zero_grad()
    with torch.autocast(DEVICE, dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)  # expect: GL207
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
