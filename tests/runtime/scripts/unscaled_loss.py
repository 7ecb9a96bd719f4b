"""The step goes through the scaler, the loss did not."""
import torch
from torch import nn

net = nn.Linear(4, 2)
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
grad_scaler = torch.amp.GradScaler("cpu")


def step(batch, target):
    optim.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(net(batch), target)
    loss.backward()  # confirmed: GL206
    grad_scaler.step(optim)
    grad_scaler.update()


for _ in range(20):
    step(torch.randn(8, 4), torch.randint(2, (8,)))
