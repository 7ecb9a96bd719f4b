"""PCGrad: the gradients of each task are collected, freed of their conflicts, and given back."""

import torch


def collect(model, losses):
    found = []
    for loss in losses:
        model.zero_grad()
        loss.backward(retain_graph=True)
        found.append([p.grad.clone() for p in model.parameters()])
    return found


def project(mine, others):
    for other in others:
        dot = sum((a * b).sum() for a, b in zip(mine, other, strict=True))
        if dot < 0:
            square = sum((b * b).sum() for b in other)
            mine = [a - dot / (square + 1e-12) * b for a, b in zip(mine, other, strict=True)]
    return mine


def train(model, loader, tasks):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for x, y in loader:
        out = model(x)
        grads = collect(model, [task(out, y) for task in tasks])
        merged = [project(g, grads[:i] + grads[i + 1 :]) for i, g in enumerate(grads)]
        for p, *parts in zip(model.parameters(), *merged, strict=True):
            p.grad = torch.stack(parts).sum(dim=0)
        optimizer.step()
