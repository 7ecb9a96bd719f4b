"""A relative error is divided by a prediction that becomes 0."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []

for x, y in batches(4):
    optimizer.zero_grad()
    prediction = nn.functional.relu(model(x))
    loss = ((y - prediction) / prediction).square().mean()  # expect: GL602
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
