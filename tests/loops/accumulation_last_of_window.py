"""`i % N == N - 1` with a zero-based counter is the window's last micro-batch."""

import torch
from torch.optim.lr_scheduler import LambdaLR


def rate(step, width=512, warmup=3000):
    step = max(step, 1)
    return width**-0.5 * min(step**-0.5, step * warmup**-1.5)


def run_epoch(batches, model, loss_fn, optimizer, scheduler, accum_iter=20):
    n_batches = len(batches)
    total_tokens, total_loss = 0, 0.0
    optimizer.zero_grad(set_to_none=True)
    for i, batch in enumerate(batches):
        out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
        loss = loss_fn(out.view(-1, out.size(-1)), batch.tgt_y.view(-1))
        total_loss += loss.item() * int(batch.ntokens)
        total_tokens += int(batch.ntokens)
        loss = loss / accum_iter
        loss.backward()
        if i % accum_iter == accum_iter - 1 or i == n_batches - 1:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            scheduler.step()
    return total_loss / total_tokens


def main(model, batches, loss_fn):
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = LambdaLR(optimizer, lr_lambda=rate)
    for epoch in range(8):
        print(epoch, run_epoch(batches, model, loss_fn, optimizer, scheduler))
