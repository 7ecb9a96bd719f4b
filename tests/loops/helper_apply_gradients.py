"""A helper finishes the update; the loop hands it the model and the optimizer."""

import logging

import torch

log = logging.getLogger(__name__)


def apply_gradients(model, optimizer, max_norm):
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return norm


def forward_loss(model, batch, weights):
    logits = model(batch["image"])
    return torch.nn.functional.cross_entropy(logits, batch["label"], weight=weights, label_smoothing=0.1)


def finetune(model, batches, weights, steps=20_000, max_norm=5.0):
    head = [p for n, p in model.named_parameters() if n.startswith("head.")]
    body = [p for n, p in model.named_parameters() if not n.startswith("head.")]
    optimizer = torch.optim.SGD([{"params": head, "lr": 0.1}, {"params": body, "lr": 0.01}], lr=0.01, momentum=0.9)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=500)
    optimizer.zero_grad(set_to_none=True)
    for step, batch in enumerate(batches):
        if step >= steps:
            break
        loss = forward_loss(model, batch, weights)
        loss.backward()
        norm = apply_gradients(model, optimizer, max_norm)
        warmup.step()
        if step % 50 == 0:
            log.info("step %d loss %.4f norm %.3f", step, loss.item(), norm)
