"""A moving average of the weights, an evaluation between the epochs, a scheduler for each epoch and one that looks."""
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(64, 6)
loader = DataLoader(TensorDataset(x, x.sum(dim=1, keepdim=True)), batch_size=16, shuffle=True)
model = nn.Linear(6, 1)
average = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
per_epoch = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.9)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)


@torch.no_grad()
def evaluate():
    average.eval()
    return sum(nn.functional.mse_loss(average(a), b).item() for a, b in loader) / len(loader)


for epoch in range(4):
    model.train()
    for inputs, targets in loader:
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p, q in zip(model.parameters(), average.parameters()):
                q.lerp_(p, 0.01)
    per_epoch.step()
    plateau.step(evaluate())
