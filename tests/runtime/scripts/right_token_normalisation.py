"""Summed losses, divided by the tokens of the whole window at its end: in place of `/ N`."""
import torch
from torch import nn

VOCABULARY, WINDOW, PAD = 20, 3, -100
model = nn.Sequential(nn.Embedding(VOCABULARY, 8), nn.Linear(8, VOCABULARY))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
tokens_seen = 0
optimizer.zero_grad()
for i in range(60):
    tokens = torch.randint(VOCABULARY, (4, 10))
    labels = tokens.roll(-1, dims=1)
    labels[:, 10 - i % 5 :] = PAD
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), ignore_index=PAD, reduction="sum")
    loss.backward()
    tokens_seen += (labels != PAD).sum().item()
    if (i + 1) % WINDOW == 0:
        for p in model.parameters():
            p.grad.mul_(1 / tokens_seen)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        tokens_seen = 0
