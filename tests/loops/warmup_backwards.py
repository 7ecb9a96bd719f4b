"""A few backwards warm the caches up and are thrown away; then the learning rate warms up by hand."""

import torch


def warm_caches(model, loss_fn, x, y, rounds=3):
    for _ in range(rounds):
        loss_fn(model(x), y).backward()
        model.zero_grad(set_to_none=True)


def train(model, loader, loss_fn, lr=0.05, warmup=4, accumulate=2, epochs=4):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    warm_caches(model, loss_fn, *next(iter(loader)))
    updates = 0
    for _ in range(epochs):
        for i, (x, y) in enumerate(loader):
            loss = loss_fn(model(x), y) / accumulate
            loss.backward()
            if (i + 1) % accumulate and i + 1 < len(loader):
                continue
            for group in optimizer.param_groups:
                group["lr"] = lr * min(1.0, (updates + 1) / warmup)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            updates += 1
