"""A window normalised by its own number of tokens instead of by N."""

import torch


def train(model, loader, device, window=8, lr=3e-4):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    ce = torch.nn.CrossEntropyLoss(ignore_index=-100, reduction="sum")
    batches = iter(loader)
    for _ in range(len(loader) // window):
        group = [next(batches) for _ in range(window)]
        tokens = sum((b["labels"] != -100).sum() for b in group).to(device)
        for batch in group:
            logits = model(batch["input_ids"].to(device))
            loss = ce(logits.flatten(0, 1), batch["labels"].to(device).flatten()) / tokens
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
