"""Two optimizers, one scaler: one update() at the end of the iteration."""

import torch
from torch.amp import GradScaler, autocast


def train_fn(disc, gen, loader, opt_disc, opt_gen, l1, bce, weight=100.0):
    scaler = GradScaler("cuda")
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        with autocast("cuda", dtype=torch.float16):
            y_fake = gen(x)
            d_real = disc(x, y)
            d_fake = disc(x, y_fake.detach())
            d_loss = (bce(d_real, torch.ones_like(d_real)) + bce(d_fake, torch.zeros_like(d_fake))) / 2
        opt_disc.zero_grad()
        scaler.scale(d_loss).backward()
        scaler.unscale_(opt_disc)
        torch.nn.utils.clip_grad_norm_(disc.parameters(), 1.0)
        scaler.step(opt_disc)

        with autocast("cuda", dtype=torch.float16):
            d_fake = disc(x, y_fake)
            g_loss = bce(d_fake, torch.ones_like(d_fake)) + weight * l1(y_fake, y)
        opt_gen.zero_grad()
        scaler.scale(g_loss).backward()
        scaler.step(opt_gen)
        scaler.update()


def main(disc, gen, loader):
    opt_disc = torch.optim.Adam(disc.parameters(), lr=2e-4, betas=(0.5, 0.999))
    opt_gen = torch.optim.Adam(gen.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for _ in range(100):
        train_fn(disc, gen, loader, opt_disc, opt_gen, torch.nn.L1Loss(), torch.nn.BCEWithLogitsLoss())
