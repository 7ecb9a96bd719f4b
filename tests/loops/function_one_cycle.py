"""A function per epoch, clipping through `nn.utils`, a scheduler once per batch."""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocab, tags, width=256):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, tags)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.embed(tokens))
        return self.head(hidden)


def train_epoch(model, loader, criterion, optimizer, scheduler, device, max_norm=1.0):
    model.train()
    running = 0.0
    for tokens, tags in loader:
        tokens = tokens.to(device, non_blocking=True)
        tags = tags.to(device, non_blocking=True)
        logits = model(tokens)
        loss = criterion(logits.flatten(0, 1), tags.flatten())

        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        scheduler.step()
        running += loss.item()
    return running / len(loader)


def main(loader, epochs=10, device="cuda"):
    model = Tagger(30_000, 17).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=epochs * len(loader))
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    for epoch in range(epochs):
        mean_loss = train_epoch(model, loader, criterion, optimizer, scheduler, device)
        print(f"{epoch}: {mean_loss:.3f}  lr {scheduler.get_last_lr()[0]:.2e}")
