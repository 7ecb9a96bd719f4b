"""Optimizers and schedulers kept in dicts, each stepped by its own key."""

import torch


class MultiTask:
    def __init__(self, encoder, heads):
        self.encoder = encoder
        self.heads = heads
        self.optimizers = {
            "encoder": torch.optim.AdamW(encoder.parameters(), lr=1e-4),
            "heads": torch.optim.SGD(heads.parameters(), lr=1e-2, momentum=0.9),
        }
        self.schedulers = {
            "encoder": torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizers["encoder"], 10_000),
            "heads": torch.optim.lr_scheduler.StepLR(self.optimizers["heads"], 2_000),
        }

    def train(self, loader):
        for batch in loader:
            shared = self.encoder(batch["inputs"])
            losses = [head(shared, batch[name]) for name, head in self.heads.items()]
            loss = torch.stack(losses).sum()

            self.optimizers["encoder"].zero_grad()
            self.optimizers["heads"].zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.encoder.parameters(), 1.0)
            self.optimizers["encoder"].step()
            self.optimizers["heads"].step()
            self.schedulers["encoder"].step()
            self.schedulers["heads"].step()
