"""Ten micro-batches in windows of four: two are left over at the end of each epoch."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

ACCUMULATION_STEPS = 4

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = batches(10)

for _ in range(2):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS
        loss.backward()
        if (i + 1) % ACCUMULATION_STEPS == 0:
            optimizer.step()  # expect: GL304
            optimizer.zero_grad()
