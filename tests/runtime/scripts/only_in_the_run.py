"""Two mistakes that hide from a reader of the text: noise in a helper that is looked up, and norms taken by a `map`."""
import operator

import torch
from torch import nn


def add_noise(model, sigma):
    for p in model.parameters():
        p.grad.add_(torch.randn_like(p.grad), alpha=sigma)  # seen: GL111


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
        self.history = []

    def step(self, x, after):
        self.optimizer.zero_grad()
        loss = self.model(x).pow(2).mean()
        self.scaler.scale(loss).backward()
        norms = [*map(torch.norm, map(operator.attrgetter("grad"), self.model.parameters()))]  # seen: GL211
        self.history.append(torch.stack(norms).norm().item())
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        globals()[after](self.model, 0.5)
        self.scaler.step(self.optimizer)
        self.scaler.update()


if __name__ == "__main__":
    trainer = Trainer(nn.Linear(6, 3))
    for _ in range(20):
        trainer.step(torch.randn(8, 6), "add_noise")
