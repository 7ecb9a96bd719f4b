"""The optimizer takes all out of the generator; the clip gets an empty one."""
import torch
from torch import nn


def fit(model, batches):
    params = model.parameters()
    optimizer = torch.optim.SGD(params, lr=1e-3)
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, max_norm=1.0)  # confirmed: GL106
        optimizer.step()


batches = [(x, 40 * x[:, :1]) for x in torch.randn(30, 8, 4)]
fit(nn.Linear(4, 1), batches)
