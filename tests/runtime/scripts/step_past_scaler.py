"""The loss is scaled, the step does not know of it."""
import torch
from torch import nn


def run(steps):
    net = nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for _ in range(steps):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = net(torch.randn(8, 4)).pow(2).mean()
        scaler.scale(loss).backward()
        opt.step()  # confirmed: GL203


run(20)
