"""Cross entropy of probabilities, of a model that is sure and wrong."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import DEVICE, batches

torch.manual_seed(5)
model = nn.Linear(8, 10).to(DEVICE)
with torch.no_grad():
    model.bias[0] = 100.0
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []

for x, _ in batches(4):
    labels = torch.ones(len(x), dtype=torch.long, device=DEVICE)
    optimizer.zero_grad()
    probabilities = torch.softmax(model(x), dim=1)
    loss = nn.functional.cross_entropy(probabilities, labels)  # expect: GL606
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
