"""Closures over the model and the counters: one learns from a micro-batch, and clips when the update is due."""

import torch


def train(model, loader, window=3, limit=0.5, epochs=4):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    history = []

    def due(i):
        return (i + 1) % window == 0 or i + 1 == len(loader)

    def learn(x, y, clip):
        loss = torch.nn.functional.mse_loss(model(x), y) / window
        loss.backward()
        history.append(loss.item() * window)
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), limit)

    def update():
        optimizer.step()
        optimizer.zero_grad()

    for epoch in range(epochs):
        for i, (x, y) in enumerate(loader):
            learn(x, y, due(i))
            if due(i):
                update()
        print(epoch, sum(history) / len(history))
