"""A scaler lifts the gradients into the range of float16, and takes them back before the step."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import DEVICE, batches, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler(DEVICE)

for x, y in batches(4):
    optimizer.zero_grad()
    with torch.autocast(DEVICE, dtype=torch.float16):
        out = model(x)
        loss = 1e-8 * nn.functional.mse_loss(out, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
