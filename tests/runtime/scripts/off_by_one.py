"""`i % 4 == 0` holds for the very first batch as well; and each micro-batch divides the whole sum again."""
import torch
from torch import nn


def train(model, data, accumulation_steps=4):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    optimizer.zero_grad()
    for i, x in enumerate(data):
        loss = model(x).pow(2).mean()
        loss.backward()
        for p in model.parameters():
            p.grad /= accumulation_steps  # confirmed: GL302
        if i % accumulation_steps == 0:
            optimizer.step()  # confirmed: GL308
            optimizer.zero_grad()


train(nn.Linear(5, 2), [torch.randn(4, 5) for _ in range(80)])
