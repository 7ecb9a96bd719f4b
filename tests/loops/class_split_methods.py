"""A trainer class whose update is split over methods that are defined after their use."""

import torch
from torch.nn.utils import clip_grad_norm_


class Trainer:
    def __init__(self, net, loader, lr=1e-3, clip=0.5):
        self.net = net
        self.loader = loader
        self.clip = clip
        self.optim = torch.optim.Adam(self.net.parameters(), lr=lr)
        self.lr_sched = torch.optim.lr_scheduler.ExponentialLR(self.optim, gamma=0.97)
        self.criterion = torch.nn.SmoothL1Loss()
        self.history = []

    def fit(self, epochs):
        for _ in range(epochs):
            self._run_epoch()
            self.lr_sched.step()

    def _run_epoch(self):
        self.net.train()
        for inputs, wanted in self.loader:
            loss = self._compute_loss(inputs.cuda(), wanted.cuda())
            self._update(loss)
            self.history.append(loss.detach())

    def _compute_loss(self, inputs, wanted):
        return self.criterion(self.net(inputs), wanted)

    def _update(self, loss):
        self.optim.zero_grad()
        loss.backward()
        clip_grad_norm_(self.net.parameters(), max_norm=self.clip)
        self.optim.step()


def run(net, loader):
    trainer = Trainer(net, loader)
    trainer.fit(epochs=30)
    return torch.stack(trainer.history).mean().item()
