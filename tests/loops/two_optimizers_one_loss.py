"""Body and head have an optimizer each; helpers clip, step and clear both at the end of a window."""

import torch


def clip_all(models, limit):
    for model in models:
        torch.nn.utils.clip_grad_norm_(model.parameters(), limit)


def step_all(optimizers, schedulers):
    for optimizer in optimizers:
        optimizer.step()
    for scheduler in schedulers:
        scheduler.step()
    for optimizer in optimizers:
        optimizer.zero_grad()


def train(body, head, loader, window=3, limit=1.0):
    body_optimizer = torch.optim.SGD(body.parameters(), lr=1e-3, momentum=0.9)
    head_optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    body_scheduler = torch.optim.lr_scheduler.StepLR(body_optimizer, 2, 0.9)
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(head(body(x)), y) / window
        loss.backward()
        if (i + 1) % window == 0 or i + 1 == len(loader):
            clip_all([body, head], limit)
            step_all([body_optimizer, head_optimizer], [body_scheduler])
