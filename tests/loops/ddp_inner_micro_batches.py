"""DDP with an inner loop: only its last micro-batch syncs."""

from contextlib import nullcontext

import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def finetune(base, sampler, gpu, steps=5000, n_micro=4):
    ddp = DDP(base.cuda(gpu), device_ids=[gpu])
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-5)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=200)
    for step in range(steps):
        optimizer.zero_grad()
        for k in range(n_micro):
            ids, mask = sampler()
            with ddp.no_sync() if k < n_micro - 1 else nullcontext():
                loss = ddp(ids.cuda(gpu), attention_mask=mask.cuda(gpu)).loss
                loss = loss / n_micro
                loss.backward()
        torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
        optimizer.step()
        warmup.step()
        if step % 250 == 0 and gpu == 0:
            print(step, loss.item() * n_micro)
