"""Hooks on the parameters divide each gradient by the size of the window, and bound its values."""

import torch


def watch(model, window, bound):
    return [p.register_hook(lambda g: (g / window).clamp(-bound, bound)) for p in model.parameters()]


def train(model, loader, loss_fn, window=2, bound=5.0):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    handles = watch(model, window, bound)
    for i, (x, y) in enumerate(loader):
        loss_fn(model(x), y).backward()
        if (i + 1) % window == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    for handle in handles:
        handle.remove()
