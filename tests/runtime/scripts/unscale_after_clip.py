"""Clipped first, unscaled afterwards; written for CUDA."""
import torch
from torch import nn

device = torch.device("cuda")
torch.cuda.set_device(0)
model = nn.Linear(8, 1).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda")
for _ in range(15):
    x = torch.randn(16, 8, device=device)
    y = x.sum(dim=1, keepdim=True).to("cuda:0", non_blocking=True)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # confirmed: GL207
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    torch.cuda.synchronize()
