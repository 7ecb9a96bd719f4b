"""Mixed precision with accumulation; the last, shorter window is stepped too."""

import torch
from torch.nn.utils import clip_grad_norm_

ACCUM_STEPS = 8


def train_one_epoch(model, loader, optimizer, scheduler, scaler, device):
    model.train()
    optimizer.zero_grad(set_to_none=True)
    for i, (inputs, labels) in enumerate(loader):
        inputs, labels = inputs.to(device), labels.to(device)
        with torch.autocast(device_type="cuda", dtype=torch.float16):
            logits = model(inputs)
            loss = torch.nn.functional.cross_entropy(logits, labels)
            loss = loss / ACCUM_STEPS
        scaler.scale(loss).backward()

        if (i + 1) % ACCUM_STEPS == 0 or (i + 1) == len(loader):
            scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)


def main(model, loader, device="cuda", epochs=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=epochs * len(loader) // ACCUM_STEPS)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(epochs):
        train_one_epoch(model, loader, optimizer, scheduler, scaler, device)
