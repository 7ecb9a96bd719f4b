# needs: accelerate
"""Accelerate divides, accumulates and holds the step back: undivided loss, step and scheduler on every batch."""
import torch
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = nn.Linear(6, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
loader = torch.utils.data.DataLoader(torch.randn(256, 6), batch_size=8)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for x in loader:
    with accelerator.accumulate(model):
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
