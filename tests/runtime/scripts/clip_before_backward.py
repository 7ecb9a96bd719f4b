"""The clip stands at the head of the turn, where there is nothing to clip yet."""
import sys

import torch
from torch import nn


def main():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    criterion = nn.MSELoss()
    for _ in range(25):
        x = torch.randn(8, 8)
        optimizer.zero_grad()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # confirmed: GL102
        loss = criterion(model(x), 50 * x[:, :1])
        loss.backward()
        optimizer.step()
    return 0


if __name__ == "__main__":
    sys.exit(main())
