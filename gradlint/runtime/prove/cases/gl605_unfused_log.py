"""The logarithm of a softmax, in two steps, of logits that are far apart."""

import torch

from gradlint.runtime.prove.lab import batches, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []

for x, y in batches(4):
    optimizer.zero_grad()
    logits = torch.cat([200 + model(x), torch.zeros_like(y)], dim=1)
    loss = -torch.log(torch.softmax(logits, dim=1))[:, 1].mean()  # expect: GL605
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
