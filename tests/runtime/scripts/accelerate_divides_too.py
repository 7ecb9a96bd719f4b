# needs: accelerate
"""Accelerate divides the loss; so does the script."""
import torch
from accelerate import Accelerator
from torch import nn

ACCUM = 4
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUM)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = torch.utils.data.DataLoader(torch.randn(256, 6), batch_size=8)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x in loader:
    with accelerator.accumulate(model):
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        loss = loss / ACCUM
        accelerator.backward(loss)  # confirmed: GL306
        optimizer.step()
        optimizer.zero_grad()
