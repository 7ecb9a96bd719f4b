"""Each entry of the gradient is cut on its own, and the gradient turns."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for x, y in batches(4, spread=20.0):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), clip_value=1.0)  # expect: GL104
    optimizer.step()
