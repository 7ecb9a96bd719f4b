"""Micro-batches without a finite loss are left out of their window, and windows without a finite norm of training."""

import torch


def train(model, loader, optimizer, window=4, limit=1.0):
    optimizer.zero_grad()
    skipped = 0
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(x), y) / window
        if torch.isfinite(loss):
            loss.backward()
        else:
            skipped += 1
        if (i + 1) % window == 0 or i + 1 == len(loader):
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
            if torch.isfinite(norm):
                optimizer.step()
            else:
                skipped += window
            optimizer.zero_grad()
    return skipped


def main(model, loader, epochs=3):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        print(train(model, loader, optimizer), "micro-batches left out")
