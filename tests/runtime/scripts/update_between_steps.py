"""Two optimizers, one scaler, and an update between their steps."""
import torch
from torch import nn

body, head = nn.Linear(8, 8), nn.Linear(8, 1)
body_opt = torch.optim.SGD(body.parameters(), lr=1e-3)
head_opt = torch.optim.SGD(head.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
for _ in range(20):
    x = torch.randn(16, 8)
    body_opt.zero_grad()
    head_opt.zero_grad()
    loss = nn.functional.mse_loss(head(body(x)), x[:, :1])
    scaler.scale(loss).backward()
    scaler.step(body_opt)
    scaler.update()  # confirmed: GL213
    scaler.step(head_opt)
    scaler.update()
