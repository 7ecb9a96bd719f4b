"""Small gradients in float16, and nothing that lifts them into its range."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import DEVICE, batches, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for x, y in batches(4):
    optimizer.zero_grad()
    with torch.autocast(DEVICE, dtype=torch.float16):  # expect: GL212
        out = model(x)
        loss = 1e-8 * nn.functional.mse_loss(out, y)
    loss.backward()
    optimizer.step()
