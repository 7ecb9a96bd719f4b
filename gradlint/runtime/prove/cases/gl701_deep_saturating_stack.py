"""Eight layers with a sigmoid behind each: what comes back to the first is next to nothing."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import DEVICE, batches

torch.manual_seed(5)
model = nn.Sequential(
    nn.Linear(8, 32), nn.Sigmoid(), nn.Linear(32, 32), nn.Sigmoid(), nn.Linear(32, 32), nn.Sigmoid(),  # expect: GL701
    nn.Linear(32, 32), nn.Sigmoid(), nn.Linear(32, 32), nn.Sigmoid(), nn.Linear(32, 32), nn.Sigmoid(),
    nn.Linear(32, 32), nn.Sigmoid(), nn.Linear(32, 1),
).to(DEVICE)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
first_to_last = []

for x, y in batches(4):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    first_to_last.append((model[0].weight.grad.norm() / model[-1].weight.grad.norm()).item())
    optimizer.step()
