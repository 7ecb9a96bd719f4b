"""A mean over the tokens of each sentence, then a mean over sentences: a token of a short one counts for more."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import PADDING, sentences, tagger

ACCUMULATION_STEPS = 4

model = tagger()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = sentences([3, 40, 5, 60, 50, 4, 30, 6])

optimizer.zero_grad()
for i, (tokens, labels) in enumerate(loader):
    scores = model(tokens)
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=PADDING)
    loss = loss / ACCUMULATION_STEPS
    loss.backward()  # expect: GL307
    if (i + 1) % ACCUMULATION_STEPS == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()
