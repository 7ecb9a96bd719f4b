"""The criterion is told the size of the window, and divides by it."""

import torch
from torch import nn


class WindowMSE(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window = window

    def forward(self, out, y):
        return nn.functional.mse_loss(out, y) / self.window


def train(model, loader, window=4):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    criterion = WindowMSE(window)
    for i, (x, y) in enumerate(loader):
        criterion(model(x), y).backward()
        if (i + 1) % window == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
