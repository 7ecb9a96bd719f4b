"""Weight decay by hand, behind the clip."""
import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x in torch.randn(20, 8, 6):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), 10 * x[:, :1])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.1)
    for p in model.parameters():
        p.grad.add_(p.data, alpha=0.5)  # confirmed: GL111
    optimizer.step()
