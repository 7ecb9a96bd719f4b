"""One scheduler moves before the first step, another never does: its parentheses were forgotten."""
import torch
from torch import nn


def main():
    body, head = nn.Linear(3, 3), nn.Linear(3, 1)
    optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
    head_optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    head_scheduler = torch.optim.lr_scheduler.ExponentialLR(head_optimizer, gamma=0.9)
    for _ in range(20):
        scheduler.step()  # confirmed: GL406
        optimizer.zero_grad()
        head_optimizer.zero_grad()
        loss = head(body(torch.randn(4, 3))).pow(2).mean()
        loss.backward()
        optimizer.step()
        head_optimizer.step()
        head_scheduler.step  # confirmed: GL405


main()
