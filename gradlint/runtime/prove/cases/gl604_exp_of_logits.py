"""The logarithm of a sum of exponentials, written out, of logits that are large but not unusual."""

import torch

from gradlint.runtime.prove.lab import batches, network

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []

for x, y in batches(4):
    optimizer.zero_grad()
    logits = torch.cat([100 + model(x), 95 * torch.ones_like(y)], dim=1)
    loss = torch.log(torch.exp(logits).sum(dim=1)).mean()  # expect: GL604
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
