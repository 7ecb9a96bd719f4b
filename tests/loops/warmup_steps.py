"""The learning rate warms up by hand; `continue` skips the rest of the body until the window is full."""

import torch


def train(model, loader, loss_fn, lr=0.05, warmup=4, accumulate=2, epochs=4):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
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
