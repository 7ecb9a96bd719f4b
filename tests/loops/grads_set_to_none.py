"""Gradients cleared by hand, through the parameters."""

import torch
from torch import nn

hidden, seq_len, clip = 200, 35, 0.25


def repackage(state):
    return tuple(s.detach() for s in state) if isinstance(state, tuple) else state.detach()


def train_lm(model, corpus, ntokens, lr=20.0, batch_size=20):
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    state = model.init_hidden(batch_size)
    model.train()
    for batch, start in enumerate(range(0, corpus.size(0) - 1, seq_len)):
        data = corpus[start : start + seq_len]
        targets = corpus[start + 1 : start + 1 + seq_len].reshape(-1)
        for p in model.parameters():
            p.grad = None
        state = repackage(state)
        output, state = model(data, state)
        loss = criterion(output.view(-1, ntokens), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if batch % 200 == 0:
            print(f"batch {batch:5d} loss {loss.item():5.2f}")
