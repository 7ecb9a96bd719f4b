"""The sum over the tokens of a window, divided by how many there are in it."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import PADDING, sentences, tagger

ACCUMULATION_STEPS = 4

model = tagger()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = sentences([3, 40, 5, 60, 50, 4, 30, 6])

for start in range(0, len(loader), ACCUMULATION_STEPS):
    window = loader[start : start + ACCUMULATION_STEPS]
    count = sum((labels != PADDING).sum() for _, labels in window)
    optimizer.zero_grad()
    for tokens, labels in window:
        scores = model(tokens)
        total = nn.functional.cross_entropy(
            scores.flatten(0, 1), labels.flatten(), ignore_index=PADDING, reduction="sum"
        )
        loss = total / count
        loss.backward()
    optimizer.step()
