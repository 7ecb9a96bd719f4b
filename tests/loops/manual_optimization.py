"""A module that optimizes by hand, called by a small trainer of the same file."""

import torch
from torch import nn


class ManualModule(nn.Module):
    def __init__(self, net, accumulate=4):
        super().__init__()
        self.net, self.accumulate = net, accumulate

    def configure_optimizers(self):
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, step_size=2, gamma=0.9)

    def manual_backward(self, loss):
        loss.backward()

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.manual_backward(loss / self.accumulate)
        if (batch_idx + 1) % self.accumulate == 0:
            self.finish_window()
        return loss.detach()

    def finish_window(self):
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.opt.step()
        self.sched.step()
        self.opt.zero_grad()


def fit(module, loader, epochs=4):
    module.configure_optimizers()
    for epoch in range(epochs):
        for batch_idx, batch in enumerate(loader):
            loss = module.training_step(batch, batch_idx)
        print(epoch, loss.item())
