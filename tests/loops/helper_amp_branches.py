"""A function for the backward, one for the update: each asks for the scaler, both are called from the loop."""

import torch


def run_backward(loss, scaler):
    if scaler is None:
        loss.backward()
    else:
        scaler.scale(loss).backward()


def run_update(model, optimizer, scaler, scheduler, limit):
    if scaler is not None:
        scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
    if scaler is not None:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    return norm


def train(model, batches, criterion, half=True, window=2, limit=1.0):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
    scaler = torch.amp.GradScaler("cuda") if half else None
    for i, (x, y) in enumerate(batches):
        with torch.autocast("cuda", enabled=half):
            loss = criterion(model(x.cuda()), y.cuda()) / window
        run_backward(loss, scaler)
        if i % window == window - 1 or i == len(batches) - 1:
            norm = run_update(model, optimizer, scaler, scheduler, limit)
            print(i, loss.item() * window, norm.item())
