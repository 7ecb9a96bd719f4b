"""An exponential average of the weights follows each update, by hand and by torch's own class."""

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


@torch.no_grad()
def follow(shadow, model, decay):
    for s, p in zip(shadow, model.parameters(), strict=True):
        s.lerp_(p, 1.0 - decay)


def update(model, optimizer, shadow, average, decay, limit):
    torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    optimizer.zero_grad()
    follow(shadow, model, decay)
    average.update_parameters(model)


def train(model, loader, window=2, decay=0.9, limit=1.0):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    shadow = [p.detach().clone() for p in model.parameters()]
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        (loss / window).backward()
        if (i + 1) % window == 0 or i + 1 == len(loader):
            update(model, optimizer, shadow, average, decay, limit)
    return shadow, average
