import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(20):
    optimizer.zero_grad()
    loss = model(torch.randn(16, 8)).square().mean()
    loss.backward()
    nn.utils.clip_grad_norm(model.parameters(), 1.0)  # confirmed: GL110
    optimizer.step()
