"""Two backwards for each step on purpose: the first finds a worse point near by, the second is used."""
import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
base = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
RHO = 0.05
for x in torch.randn(30, 8, 6):
    y = x[:, :1]
    nn.functional.mse_loss(model(x), y).backward()
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    moves = []
    with torch.no_grad():
        for p in model.parameters():
            move = p.grad * (RHO / (norm + 1e-12))
            p.add_(move)
            moves.append(move)
    base.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    with torch.no_grad():
        for p, move in zip(model.parameters(), moves):
            p.sub_(move)
    base.step()
    base.zero_grad()
