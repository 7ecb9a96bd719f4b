"""The optimizer has used up the generator that the clip is given."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

model = network()
parameters = model.parameters()
optimizer = torch.optim.SGD(parameters, lr=0.01)

for x, y in batches(4, spread=20.0):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, max_norm=1.0)  # expect: GL106
    optimizer.step()
