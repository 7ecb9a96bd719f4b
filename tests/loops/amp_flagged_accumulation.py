"""Accumulation and a scaler behind `if scaler is not None`, in one function."""

import torch


def train_epoch(net, loader, criterion, optimizer, lr_sched, device, scaler=None, accum=1, clip=1.0):
    net.train()
    updates = 0
    for batch_idx, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        with torch.autocast(device.type, dtype=torch.float16, enabled=scaler is not None):
            loss = criterion(net(data), target)
        loss = loss / accum

        if scaler is not None:
            scaler.scale(loss).backward()
        else:
            loss.backward()

        if (batch_idx + 1) % accum == 0 or batch_idx + 1 == len(loader):
            if scaler is not None:
                scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
            if scaler is not None:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            lr_sched.step()
            optimizer.zero_grad()
            updates += 1
    return updates


def main(net, loader, epochs=20, device=None):
    device = device or torch.device("cuda")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    lr_sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=500)
    scaler = torch.amp.GradScaler("cuda") if device.type == "cuda" else None
    for _ in range(epochs):
        train_epoch(net, loader, torch.nn.CrossEntropyLoss(), optimizer, lr_sched, device, scaler, accum=4)
