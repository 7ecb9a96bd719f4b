"""DDP's own flag is set before each forward."""

import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def train(raw_model, next_batch, device, total_steps, micro_steps=16, clip=1.0):
    model = DDP(raw_model.to(device), device_ids=[device])
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total_steps)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(total_steps):
        for micro in range(micro_steps):
            model.require_backward_grad_sync = micro == micro_steps - 1
            tokens, targets = next_batch()
            with torch.autocast("cuda", dtype=torch.float16):
                _, loss = model(tokens, targets)
                loss = loss / micro_steps
            scaler.scale(loss).backward()
        if clip > 0.0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 100 == 0:
            print(f"step {step} loss {loss.item() * micro_steps:.3f}")
