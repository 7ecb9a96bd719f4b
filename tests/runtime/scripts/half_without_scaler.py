"""A loss so small that its gradients are 0 in float16."""
import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
for _ in range(12):
    x = torch.randn(32, 8)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):  # confirmed: GL212 no-fix
        out = model(x)
        loss = torch.mean(out * 1e-8)
    loss.backward()
    optimizer.step()
