"""Nothing tells the scaler that the step is over: the second one raises."""
import torch
from torch import nn
from torch.amp import GradScaler

model = nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters())
scaler = GradScaler("cpu")
for _ in range(20):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).abs().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)  # confirmed: GL204
