"""A one-based counter from `enumerate(…, start=1)` and an in-place division."""

import torch
from torch import nn


def pretrain(encoder: nn.Module, head: nn.Module, loader, *, accumulate: int = 4, lr: float = 2e-4) -> nn.Module:
    params = [*encoder.parameters(), *head.parameters()]
    opt = torch.optim.AdamW(params, lr=lr, betas=(0.9, 0.95))
    total = len(loader)
    opt.zero_grad()
    for n, (view_a, view_b) in enumerate(loader, start=1):
        za, zb = head(encoder(view_a)), head(encoder(view_b))
        sim = nn.functional.normalize(za) @ nn.functional.normalize(zb).T
        labels = torch.arange(len(sim), device=sim.device)
        loss = nn.functional.cross_entropy(sim * 10.0, labels)
        loss /= accumulate
        loss.backward()
        if n % accumulate == 0 or n == total:
            norm = nn.utils.clip_grad_norm_(params, max_norm=1.0)
            opt.step()
            opt.zero_grad()
            print(f"{n}/{total} norm before the clip {norm:.2f}")
    return encoder
