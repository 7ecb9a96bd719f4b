"""Differentially private SGD: each sample's gradient is clipped and collected before the next one is made."""

import torch


def private_step(model, optimizer, loss_fn, xs, ys, bound=1.0, sigma=0.5):
    total = [torch.zeros_like(p) for p in model.parameters()]
    for x, y in zip(xs, ys, strict=True):
        model.zero_grad()
        loss_fn(model(x[None]), y[None]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), bound)
        for t, p in zip(total, model.parameters(), strict=True):
            t += p.grad
    for t, p in zip(total, model.parameters(), strict=True):
        p.grad = (t + sigma * bound * torch.randn_like(t)) / len(xs)
    optimizer.step()


def train(model, loader, loss_fn):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for xs, ys in loader:
        private_step(model, optimizer, loss_fn, xs, ys)
