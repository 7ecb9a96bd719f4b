"""Noise is added to gradients that have been clipped."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

torch.manual_seed(5)
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for x, y in batches(4, spread=20.0):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    for p in model.parameters():
        if p.grad is not None:
            p.grad.add_(torch.randn_like(p))  # expect: GL111
    optimizer.step()
