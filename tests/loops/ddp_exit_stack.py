"""Contexts collected in an ExitStack."""

from contextlib import ExitStack

import torch
from torch.nn.parallel import DistributedDataParallel as DDP


class Engine:
    def __init__(self, module, rank, accumulate_every):
        self.model = DDP(module.to(rank), device_ids=[rank])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-4)
        self.scaler = torch.amp.GradScaler("cuda")
        self.accumulate_every = accumulate_every
        self.rank = rank

    def epoch(self, loader):
        self.optimizer.zero_grad(set_to_none=True)
        for it, (images, targets) in enumerate(loader):
            images, targets = images.to(self.rank), targets.to(self.rank)
            update = (it + 1) % self.accumulate_every == 0 or it == len(loader) - 1
            with ExitStack() as stack:
                if not update:
                    stack.enter_context(self.model.no_sync())
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = torch.nn.functional.cross_entropy(self.model(images), targets)
                self.scaler.scale(loss / self.accumulate_every).backward()
            if update:
                self.scaler.unscale_(self.optimizer)
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad(set_to_none=True)
