"""unscale_ on each micro-batch of a window: the second call raises."""
import torch
from torch import nn


def train(loader, steps_per_update=2):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer.zero_grad()
    for i, x in enumerate(loader):
        loss = model(x).pow(2).mean() / steps_per_update
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # confirmed: GL205
        if (i + 1) % steps_per_update == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


train(torch.randn(40, 8, 4))
