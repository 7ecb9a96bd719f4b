"""One call scales, runs the backward, and, when an update is due, unscales, clips and steps."""

import torch


class LossScaler:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer, parameters, clip=None, need_update=True):
        self.scaler.scale(loss).backward()
        if need_update:
            self.scaler.unscale_(optimizer)
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(parameters, clip)
            self.scaler.step(optimizer)
            self.scaler.update()


def train_one_epoch(model, loader, optimizer, loss_scaler, accum=3, clip=1.0):
    optimizer.zero_grad()
    for idx, (samples, targets) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(samples.cuda()), targets.cuda())
        loss = loss / accum
        need_update = (idx + 1) % accum == 0 or idx + 1 == len(loader)
        loss_scaler(loss, optimizer, list(model.parameters()), clip, need_update)
        if need_update:
            optimizer.zero_grad()


def main(model, loader, epochs=5):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_scaler = LossScaler()
    for _ in range(epochs):
        train_one_epoch(model, loader, optimizer, loss_scaler)
