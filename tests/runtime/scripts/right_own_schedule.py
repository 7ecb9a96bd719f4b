"""A few backwards to warm caches up, thrown away; then a schedule of the author's own sets the rate of the step that
follows, and gradients are cleared by hand."""
import math

import torch
from torch import nn


class WarmupCosine:
    def __init__(self, optimizer, warmup, total, peak):
        self.optimizer, self.warmup, self.total, self.peak = optimizer, warmup, total, peak
        self.now = 0

    def step(self):
        self.now += 1
        if self.now < self.warmup:
            rate = self.peak * self.now / self.warmup
        else:
            rate = 0.5 * self.peak * (1 + math.cos(math.pi * self.now / self.total))
        for group in self.optimizer.param_groups:
            group["lr"] = rate


model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
for _ in range(3):
    model(torch.randn(8, 6)).pow(2).mean().backward()
    optimizer.zero_grad()

scheduler = WarmupCosine(optimizer, 4, 40, 0.1)
for x in torch.randn(20, 8, 6):
    scheduler.step()
    for p in model.parameters():
        p.grad = None
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
