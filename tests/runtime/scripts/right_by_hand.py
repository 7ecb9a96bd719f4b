"""No optimizer at all: the loop steps by itself, with momentum, and clears."""

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
speeds = [torch.zeros_like(p) for p in model.parameters()]
for _ in range(20):
    x = torch.randn(16, 4)
    model.zero_grad()
    loss = (model(x) - x.sum(dim=1, keepdim=True)).square().mean()
    loss.backward()
    print(f"norm {torch.stack([p.grad.norm() for p in model.parameters()]).norm():.3f}")
    with torch.no_grad():
        for p, speed in zip(model.parameters(), speeds, strict=True):
            speed.mul_(0.9).add_(p.grad)
            p -= 0.05 * speed
