import torch

torch.manual_seed(0)
weight = torch.randn(4, requires_grad=True)
bias = torch.zeros((), requires_grad=True)
for _ in range(20):
    x = torch.randn(8, 4)
    loss = (x @ weight + bias - x.sum(dim=1)).square().mean()
    loss.backward()  # seen: GL401
    for p in (weight, bias):
        p.data.add_(p.grad, alpha=-0.1)
