"""A base class owns the update; the subclass only says what the loss is."""

import torch


class BaseTrainer:
    accumulation_steps = 1

    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=1000)
        self.scaler = torch.amp.GradScaler("cuda")

    def compute_loss(self, batch):
        raise NotImplementedError

    def train_epoch(self, loader):
        self.model.train()
        for step, batch in enumerate(loader):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.compute_loss(batch) / self.accumulation_steps
            self.scaler.scale(loss).backward()
            if (step + 1) % self.accumulation_steps == 0 or step + 1 == len(loader):
                self.optimizer_step()

    def optimizer_step(self):
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)


class DetectorTrainer(BaseTrainer):
    accumulation_steps = 4

    def compute_loss(self, batch):
        losses = self.model(batch["images"].cuda(), batch["targets"])
        return sum(losses.values())
