"""Sums over the items of a window; a helper divides the gradients by their number, once, before they are clipped."""

import torch


def average_gradients(model, count):
    for p in model.parameters():
        if p.grad is not None:
            p.grad.div_(count)


def train(model, loader, window=4, limit=1.0):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    optimizer.zero_grad()
    held, items = 0, 0
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(x), y, reduction="sum")
        loss.backward()
        held += 1
        items += len(x)
        if held == window or i + 1 == len(loader):
            average_gradients(model, items)
            torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
            optimizer.step()
            optimizer.zero_grad()
            held = 0
            items = 0
