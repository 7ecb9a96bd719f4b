"""A DDP trainer class; the context is stored in a variable, called."""

from contextlib import nullcontext

import torch
from torch.nn.parallel import DistributedDataParallel


class DiffusionTrainer:
    def __init__(self, unet, schedule, device, grad_accumulate_every=2, max_grad_norm=1.0):
        self.device = device
        self.model = DistributedDataParallel(unet.to(device), device_ids=[device])
        self.opt = torch.optim.Adam(self.model.parameters(), lr=8e-5, betas=(0.9, 0.99))
        self.scaler = torch.amp.GradScaler("cuda")
        self.schedule = schedule
        self.grad_accumulate_every = grad_accumulate_every
        self.max_grad_norm = max_grad_norm
        self.step = 0

    def train(self, batches, num_steps):
        while self.step < num_steps:
            for micro in range(self.grad_accumulate_every):
                images = next(batches).to(self.device)
                last = micro == self.grad_accumulate_every - 1
                context = nullcontext() if last else self.model.no_sync()
                with context:
                    with torch.autocast("cuda", dtype=torch.float16):
                        t = torch.randint(0, self.schedule.steps, (len(images),), device=self.device)
                        noisy, noise = self.schedule.diffuse(images, t)
                        loss = torch.nn.functional.mse_loss(self.model(noisy, t), noise)
                        loss = loss / self.grad_accumulate_every
                    self.scaler.scale(loss).backward()

            self.scaler.unscale_(self.opt)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_grad_norm)
            self.scaler.step(self.opt)
            self.scaler.update()
            self.opt.zero_grad()
            self.step += 1
