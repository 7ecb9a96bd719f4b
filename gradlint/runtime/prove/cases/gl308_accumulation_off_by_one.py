"""A counter that begins at zero closes the first window after one micro-batch."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

ACCUMULATION_STEPS = 4

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = batches(12)

optimizer.zero_grad()
for i, (x, y) in enumerate(loader):
    loss = nn.functional.mse_loss(model(x), y) / ACCUMULATION_STEPS
    loss.backward()
    if i % ACCUMULATION_STEPS == 0 or i + 1 == len(loader):
        optimizer.step()  # expect: GL308
        optimizer.zero_grad()
