"""Every micro-batch is followed by a clip of what has been summed so far."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

ACCUMULATION_STEPS = 4

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = batches(12, size=2, spread=20.0)

optimizer.zero_grad()
for i, (x, y) in enumerate(loader):
    loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)  # expect: GL103
    if (i + 1) % ACCUMULATION_STEPS == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()
