"""A helper looks at gradients that are still scaled; and the names are those that torch calls deprecated since 2.4."""
import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast

model = nn.Linear(6, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
scaler = GradScaler()  # confirmed: GL210


def watch(step):
    for name, p in model.named_parameters():
        if p.grad is not None:
            print(step, name, p.grad.norm().item())  # confirmed: GL211


for step, x in enumerate(torch.randn(20, 8, 6).cuda()):
    optimizer.zero_grad()
    with autocast():  # confirmed: GL210
        loss = model(x).pow(2).mean()
    scaler.scale(loss).backward()
    watch(step)
    scaler.step(optimizer)
    scaler.update()
