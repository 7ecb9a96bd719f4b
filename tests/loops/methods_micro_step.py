"""A trainer whose micro-step does forward and backward, and whose update clips, steps, schedules and logs."""

import logging

import torch
from torch import nn

log = logging.getLogger(__name__)


class Trainer:
    def __init__(self, model, lr=1e-2, accumulate=4, limit=1.0):
        self.model, self.accumulate, self.limit = model, accumulate, limit
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)
        self.updates, self.seen = 0, 0.0

    def micro_step(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y) / self.accumulate
        loss.backward()
        self.seen += loss.item()

    def update(self):
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.limit)
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.updates += 1
        log.info("update %d: loss %.4f, norm %.3f", self.updates, self.seen, norm)
        self.seen = 0.0

    def fit(self, loader, epochs):
        self.optimizer.zero_grad(set_to_none=True)
        for _ in range(epochs):
            for i, (x, y) in enumerate(loader):
                self.micro_step(x, y)
                if (i + 1) % self.accumulate == 0 or i + 1 == len(loader):
                    self.update()
