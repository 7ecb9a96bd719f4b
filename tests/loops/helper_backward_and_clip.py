"""A helper runs the backward of each micro-batch and clips with the last one of a window, as it is told."""

import torch


def backward_and_clip(model, loss, limit, last):
    loss.backward()
    if last:
        torch.nn.utils.clip_grad_norm_(model.parameters(), limit)


def train(model, loader, loss_fn, every=4, limit=1.0):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        last = (i + 1) % every == 0 or i + 1 == len(loader)
        backward_and_clip(model, loss_fn(model(x), y) / every, limit, last)
        if last:
            optimizer.step()
            optimizer.zero_grad()
