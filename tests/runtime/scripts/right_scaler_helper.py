"""One object scales, backwards, unscales, clips and steps, behind a flag."""
import torch
from torch import nn


class LossScaler:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer, clip_grad=None, parameters=None, create_graph=False, need_update=True):
        self.scaler.scale(loss).backward(create_graph=create_graph)
        if need_update:
            if clip_grad is not None:
                self.scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(parameters, clip_grad)
            self.scaler.step(optimizer)
            self.scaler.update()

    def state_dict(self):
        return self.scaler.state_dict()


def train_one_epoch(model, batches, optimizer, loss_scaler, accum):
    optimizer.zero_grad()
    for i, x in enumerate(batches):
        need_update = (i + 1) % accum == 0
        with torch.autocast("cuda"):
            loss = model(x).pow(2).mean()
        loss = loss / accum
        loss_scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters(), need_update=need_update)
        if need_update:
            optimizer.zero_grad()


model = nn.Linear(6, 2)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    train_one_epoch(model, torch.randn(16, 4, 6), optimizer, LossScaler(), accum=2)
