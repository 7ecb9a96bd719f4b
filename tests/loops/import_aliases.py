"""Everything under another name: `th`, `clip_`, `sched`, a scaler called `gs`-something."""

import torch as th
import torch.nn.functional as fn
import torch.optim.lr_scheduler as sched
from torch.nn.utils import clip_grad_norm_ as clip_


def train_denoiser(unet, images, betas, ema, rounds=100_000, k=2):
    ac = th.cumprod(1.0 - betas, dim=0)
    adam = th.optim.AdamW(unet.parameters(), lr=1e-4)
    warm = sched.LinearLR(adam, 1e-3, 1.0, total_iters=1000)
    loss_scaler = th.amp.GradScaler("cuda", growth_interval=500)
    source = iter(images)
    for it in range(rounds):
        adam.zero_grad(set_to_none=True)
        for _ in range(k):
            x0 = next(source).cuda()
            t = th.randint(0, len(betas), (x0.shape[0],), device=x0.device)
            noise = th.randn_like(x0)
            scale = ac[t].view(-1, 1, 1, 1)
            xt = scale**0.5 * x0 + (1 - scale) ** 0.5 * noise
            with th.autocast("cuda", dtype=th.float16):
                mse = fn.mse_loss(unet(xt, t), noise)
            loss_scaler.scale(mse / k).backward()
        loss_scaler.unscale_(adam)
        total_norm = clip_(unet.parameters(), 1.0)
        loss_scaler.step(adam)
        loss_scaler.update()
        warm.step()
        ema.update(unet)
        if it % 1000 == 0:
            print(f"{it} mse {mse.item():.4f} norm {total_norm.item():.3f}")
