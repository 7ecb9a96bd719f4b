"""A function with a backward of its own multiplies in whatever dtype autocast chooses where the backward runs."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import DEVICE, batches, network

dtypes = []


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(torch.eye(x.shape[1], device=x.device))
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        product = grad.float() @ ctx.saved_tensors[0]
        dtypes.append(str(product.dtype).removeprefix("torch."))
        return 2 * product


model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for x, y in batches(4):
    optimizer.zero_grad()
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(Doubled.apply(model(x)).float(), y)
        loss.backward()  # expect: GL208
    optimizer.step()
