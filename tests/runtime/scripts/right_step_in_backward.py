"""Each parameter has an optimizer of its own that steps as soon as its gradient is there: no loop ever calls one."""
import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}


def update(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(update)

for x in torch.randn(20, 8, 6):
    loss = nn.functional.mse_loss(model(x), x[:, :1])
    loss.backward()
