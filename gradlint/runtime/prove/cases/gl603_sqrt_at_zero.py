"""An error as the root of its square, and a batch that is predicted without any."""

import torch

from gradlint.runtime.prove.lab import batches, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []

for i, (x, y) in enumerate(batches(4)):
    optimizer.zero_grad()
    prediction = model(x)
    if i == 2:
        y = prediction.detach()
    loss = torch.sqrt((prediction - y) ** 2).mean()  # expect: GL603
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
