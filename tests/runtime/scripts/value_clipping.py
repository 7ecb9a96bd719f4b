# options: --unsafe-fixes
"""Each value is cut by itself, which bends the gradient."""
import torch
from torch import nn


class Learner:
    limit = 0.1

    def __init__(self, size):
        self.net = nn.Linear(size, 1)
        self.optim = torch.optim.SGD(self.net.parameters(), lr=1e-3)

    def learn(self, x, y):
        self.optim.zero_grad()
        nn.functional.mse_loss(self.net(x), y).backward()
        torch.nn.utils.clip_grad_value_(self.net.parameters(), self.limit)  # confirmed: GL104
        self.optim.step()


learner = Learner(6)
for x in torch.randn(20, 8, 6):
    learner.learn(x, 10 * x[:, :1])
