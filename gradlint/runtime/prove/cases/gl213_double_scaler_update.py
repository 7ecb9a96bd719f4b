"""Between the steps of two optimizers the scale changes; the second is divided by another scale than it was given."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import DEVICE, batches, network

model = network()
body = torch.optim.SGD(model[0].parameters(), lr=0.01)
head = torch.optim.SGD(model[2].parameters(), lr=0.01)
scaler = torch.amp.GradScaler(DEVICE, init_scale=64.0, growth_interval=1)

for x, y in batches(4):
    body.zero_grad()
    head.zero_grad()
    with torch.autocast(DEVICE, dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(body)
    scaler.update()  # expect: GL213
    scaler.step(head)
    scaler.update()
