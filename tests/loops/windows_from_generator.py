"""A generator hands out whole windows; a helper runs one and returns its mean loss for the log."""

import itertools

import torch


def windows(loader, size):
    source = iter(loader)
    while window := list(itertools.islice(source, size)):
        yield window


def run_window(model, window):
    total = 0.0
    for x, y in window:
        loss = torch.nn.functional.mse_loss(model(x), y) / len(window)
        loss.backward()
        total += loss.item()
    return total


def train(model, loader, size=4, limit=1.0, epochs=3):
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for window in windows(loader, size):
            optimizer.zero_grad()
            mean = run_window(model, window)
            torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
            optimizer.step()
        print(epoch, mean)
