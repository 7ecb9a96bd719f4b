"""A closure that adds to the gradients of its last call."""
import torch
from torch import nn

x = torch.randn(32, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)


def closure():
    loss = nn.functional.mse_loss(model(x), x[:, :1])
    loss.backward()  # confirmed: GL401
    return loss


for _ in range(6):
    optimizer.step(closure)
