"""Gradients are asked for, collected in buffers of their own, and handed to the optimizer when the window is full."""

import torch


class Collector:
    def __init__(self, params, window):
        self.params, self.window = list(params), window
        self.sums = [torch.zeros_like(p) for p in self.params]

    def add(self, loss):
        for s, g in zip(self.sums, torch.autograd.grad(loss, self.params), strict=True):
            s.add_(g, alpha=1.0 / self.window)

    def hand_over(self):
        for s, p in zip(self.sums, self.params, strict=True):
            p.grad = s.clone()
            s.zero_()


def train(model, loader, window=3, limit=1.0):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    collector = Collector(model.parameters(), window)
    for i, (x, y) in enumerate(loader):
        collector.add(torch.nn.functional.cross_entropy(model(x), y))
        if (i + 1) % window == 0 or i + 1 == len(loader):
            collector.hand_over()
            torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
            optimizer.step()
