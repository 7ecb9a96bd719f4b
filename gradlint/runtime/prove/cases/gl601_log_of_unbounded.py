"""The logarithm of a prediction that becomes 0 goes into the loss."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []

for x, _ in batches(4):
    optimizer.zero_grad()
    prediction = nn.functional.relu(model(x))
    loss = -torch.log(prediction).mean()  # expect: GL601
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
