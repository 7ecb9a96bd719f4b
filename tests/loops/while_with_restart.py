"""`while` over updates: micro-batches are pulled until the window is full, an exhausted loader starts anew."""

import torch


class Stream:
    def __init__(self, loader):
        self.loader, self.source, self.epochs = loader, iter(loader), 0

    def pull(self):
        try:
            return next(self.source)
        except StopIteration:
            self.epochs += 1
            self.source = iter(self.loader)
            return next(self.source)


def train(model, loader, updates=20, window=4, limit=1.0):
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=updates)
    stream = Stream(loader)
    done = 0
    while done < updates:
        optimizer.zero_grad()
        held = 0
        while held < window:
            x, y = stream.pull()
            loss = torch.nn.functional.mse_loss(model(x), y)
            (loss / window).backward()
            held += 1
        torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
        optimizer.step()
        scheduler.step()
        done += 1
        if done % 5 == 0:
            print(done, stream.epochs, loss.item())
