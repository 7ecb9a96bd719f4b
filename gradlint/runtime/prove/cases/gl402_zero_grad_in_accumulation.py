"""Every micro-batch clears what the ones before it have gathered."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

ACCUMULATION_STEPS = 4

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = batches(12, size=2)

for i, (x, y) in enumerate(loader):
    optimizer.zero_grad()  # expect: GL402
    loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS
    loss.backward()
    if (i + 1) % ACCUMULATION_STEPS == 0 or i + 1 == len(loader):
        optimizer.step()
