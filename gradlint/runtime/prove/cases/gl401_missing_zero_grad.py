"""Nothing ever clears the gradients, so each step uses the sum of all so far."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for x, y in batches(4):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()  # expect: GL401
    optimizer.step()
