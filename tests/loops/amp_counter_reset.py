"""Mixed precision with a counter that resets, a name for the boundary, and a scheduler per update."""

import torch
from torch import amp, nn, optim


def finetune_vit(vit: nn.Module, data, device: torch.device, target_batch: int = 256) -> None:
    group = max(1, target_batch // data.batch_size)
    sgd = optim.SGD(vit.parameters(), lr=3e-3, momentum=0.9)
    cosine = optim.lr_scheduler.CosineAnnealingLR(sgd, T_max=len(data) // group)
    amp_scaler = amp.GradScaler(device.type)
    smooth = nn.CrossEntropyLoss(label_smoothing=0.1)
    held = 0
    left = len(data)
    for image, label in data:
        left -= 1
        held += 1
        with amp.autocast(device.type, dtype=torch.float16):
            loss = smooth(vit(image.to(device)), label.to(device)) / group
        amp_scaler.scale(loss).backward()
        ready = held >= group or left == 0
        if ready:
            amp_scaler.unscale_(sgd)
            nn.utils.clip_grad_norm_(vit.parameters(), 1.0)
            amp_scaler.step(sgd)
            amp_scaler.update()
            cosine.step()
            sgd.zero_grad(set_to_none=True)
            held = 0
