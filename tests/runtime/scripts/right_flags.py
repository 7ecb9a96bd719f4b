# arguments: --amp
"""Mixed precision behind a flag, written out twice; accumulation without a modulo; norms logged at the boundary."""
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
args = parser.parse_args()
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu") if args.amp else None
last_step, accumulate = -1, 4
optimizer.zero_grad()
for ni, x in enumerate(torch.randn(60, 8, 6)):
    loss = nn.functional.mse_loss(model(x), x[:, :1]) / accumulate
    if args.amp:
        scaler.scale(loss).backward()
    else:
        loss.backward()
    if ni - last_step >= accumulate:
        if args.amp:
            scaler.unscale_(optimizer)
        norms = [p.grad.norm().item() for p in model.parameters()]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        if args.amp:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.zero_grad()
        last_step = ni
