"""The log shows what the clip has left of the gradients."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
log = []

for x, y in batches(4, spread=10.0):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    log.append(torch.stack([p.grad.norm() for p in model.parameters()]).norm().item())  # expect: GL112
    optimizer.step()
