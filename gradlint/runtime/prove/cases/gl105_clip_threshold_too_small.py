"""A limit far below any gradient of this training."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

MAX_NORM = 0.001

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []

for _ in range(5):
    for x, y in batches(8, spread=0.3):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)  # expect: GL105
        optimizer.step()
        losses.append(loss.item())
