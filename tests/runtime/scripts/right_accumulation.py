"""Canonical: divided, clipped at the boundary, scheduler with the optimizer, last window stepped."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--accum", type=int, default=4)
args = parser.parse_args()
x = torch.randn(128, 8)
loader = DataLoader(TensorDataset(x, x.sum(dim=1, keepdim=True)), batch_size=8, shuffle=True)
model = nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for epoch in range(3):
    for i, (inputs, targets) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
            loss = nn.functional.mse_loss(model(inputs), targets) / args.accum
        scaler.scale(loss).backward()
        if (i + 1) % args.accum == 0 or i + 1 == len(loader):
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            optimizer.zero_grad()
