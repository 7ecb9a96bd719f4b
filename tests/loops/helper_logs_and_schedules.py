"""What follows an update (learning rate, log) is in one helper, and what precedes it in another."""

import logging

import torch

log = logging.getLogger(__name__)


def finish_micro_batch(loss, totals):
    loss.backward()
    totals.append(loss.item())


def finish_update(optimizer, scheduler, totals, step):
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad(set_to_none=True)
    log.info("update %d: loss %.4f, lr %.2e", step, sum(totals), scheduler.get_last_lr()[0])
    totals.clear()


def train(model, loader, window=2, limit=1.0):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
    totals = []
    for i, (x, y) in enumerate(loader, start=1):
        loss = torch.nn.functional.mse_loss(model(x), y) / window
        finish_micro_batch(loss, totals)
        if i % window == 0 or i == len(loader):
            torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
            finish_update(optimizer, scheduler, totals, i // window)
