"""The clip is called by its old name."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for x, y in batches(4):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm(model.parameters(), max_norm=1.0)  # expect: GL110
    optimizer.step()
