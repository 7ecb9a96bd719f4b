"""Everything together: DDP, no_sync, accumulation, AMP, clipping, a scheduler."""

import contextlib

import torch
import torch.nn as nn


def train_epoch(model, loader, criterion, optimizer, scheduler, scaler, cfg):
    model.train()
    meter = torch.zeros((), device=cfg.device)
    for index, (samples, targets) in enumerate(loader):
        samples = samples.to(cfg.device, non_blocking=True)
        targets = targets.to(cfg.device, non_blocking=True)
        stepping = (index + 1) % cfg.accum_steps == 0 or index + 1 == len(loader)

        with contextlib.nullcontext() if stepping else model.no_sync():
            with torch.autocast("cuda", dtype=torch.float16):
                outputs = model(samples)
                loss = criterion(outputs, targets) / cfg.accum_steps
            scaler.scale(loss).backward()

        if stepping:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), cfg.clip_grad)
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
        meter += loss.detach()
    return meter.item() / len(loader)


def launch(net, loader, cfg):
    model = nn.parallel.DistributedDataParallel(net.to(cfg.device), device_ids=[cfg.local_rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=cfg.lr, total_steps=cfg.total_steps)
    scaler = torch.amp.GradScaler("cuda")
    criterion = nn.CrossEntropyLoss()
    for _ in range(cfg.epochs):
        train_epoch(model, loader, criterion, optimizer, scheduler, scaler, cfg)
