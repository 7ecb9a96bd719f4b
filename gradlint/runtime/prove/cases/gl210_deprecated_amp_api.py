"""Names of mixed precision that torch has announced to drop."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for x, y in batches(4):
    optimizer.zero_grad()
    with torch.cpu.amp.autocast(dtype=torch.bfloat16):  # expect: GL210
        loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
