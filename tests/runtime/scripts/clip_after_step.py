import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(20):
    x = torch.randn(16, 8)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), 30 * x.sum(dim=1, keepdim=True))
    loss.backward()
    optimizer.step()
    clip_grad_norm_(model.parameters(), max_norm=1.0)  # confirmed: GL101
