"""SAM: a backward finds the worst weights nearby, a second one at that place makes the update."""

import torch


class SAM:
    def __init__(self, params, base, rho=0.05):
        self.params, self.base, self.rho = list(params), base, rho
        self.moved = []

    @torch.no_grad()
    def climb(self):
        norm = torch.stack([p.grad.norm() for p in self.params]).norm()
        self.moved = [p.grad * (self.rho / (norm + 1e-12)) for p in self.params]
        for p, e in zip(self.params, self.moved, strict=True):
            p.add_(e)

    @torch.no_grad()
    def descend(self):
        for p, e in zip(self.params, self.moved, strict=True):
            p.sub_(e)


def train(model, loader, criterion, lr=0.05):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    sam = SAM(model.parameters(), optimizer)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        sam.climb()

        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        sam.descend()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(loss.item())
