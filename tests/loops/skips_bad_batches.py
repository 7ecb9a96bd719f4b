"""Batches that fail or give NaN are left out without leaving gradients behind."""

import logging
import math

import torch

logger = logging.getLogger("train")


def train(model, loader, optimizer, scheduler, max_norm=1.0, patience=10):
    bad = 0
    for step, batch in enumerate(loader):
        optimizer.zero_grad(set_to_none=True)
        try:
            loss = model(**batch)["loss"]
        except torch.cuda.OutOfMemoryError:
            logger.warning("step %d does not fit, skipped", step)
            torch.cuda.empty_cache()
            continue
        if not math.isfinite(loss.item()):
            bad += 1
            if bad > patience:
                raise RuntimeError(f"{bad} losses in a row are not finite")
            continue
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        if not torch.isfinite(norm):
            logger.warning("step %d: gradient norm %s, skipped", step, norm)
            continue
        bad = 0
        optimizer.step()
        scheduler.step()


def main(model, loader):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=100)
    train(model, loader, optimizer, scheduler)
