"""The context is chosen first, uncalled, and entered later."""

from contextlib import nullcontext

import torch
from torch.nn.parallel import DistributedDataParallel


def train_ddp(net, loader, local_rank, grad_accum=8):
    model = DistributedDataParallel(net.cuda(local_rank), device_ids=[local_rank])
    opt = torch.optim.Adam(model.parameters(), lr=3e-4)
    batches = len(loader)
    for idx, batch in enumerate(loader):
        is_last = (idx + 1) % grad_accum == 0 or idx + 1 == batches
        maybe_sync = nullcontext if is_last else model.no_sync
        with maybe_sync():
            out = model(batch["frames"].cuda(local_rank))
            loss = torch.nn.functional.l1_loss(out, batch["next"].cuda(local_rank))
            loss = loss / grad_accum
            loss.backward()
        if not is_last:
            continue
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
