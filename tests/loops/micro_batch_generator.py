"""A generator cuts batches into micro-batches, and says how many there are and which is the last."""

import torch


def micro_batches(loader, size):
    for inputs, labels in loader:
        parts = list(zip(inputs.split(size), labels.split(size), strict=True))
        for k, (x, y) in enumerate(parts):
            yield x, y, len(parts), k == len(parts) - 1


def train(model, loader, size=2, limit=1.0, lr=1e-2):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, 1.0, total_iters=5)
    optimizer.zero_grad()
    for x, y, count, last in micro_batches(loader, size):
        loss = torch.nn.functional.cross_entropy(model(x), y) / count
        loss.backward()
        if last:
            torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
