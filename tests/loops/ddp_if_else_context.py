"""The context is made by an `if` statement before it is entered."""

import contextlib

import torch
from torch.nn.parallel import DistributedDataParallel


def train_asr(encoder, loader, rank, update_every=4, max_norm=3.0):
    model = DistributedDataParallel(encoder.to(rank), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98))
    noam = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) ** -0.5, (s + 1) * 4000**-1.5))
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**12)
    ctc = torch.nn.CTCLoss(zero_infinity=True)
    n_batches = len(loader)

    for step, (speech, speech_len, text, text_len) in enumerate(loader, 1):
        flush = step % update_every == 0 or step == n_batches
        if flush:
            sync = contextlib.nullcontext()
        else:
            sync = model.no_sync()

        with sync:
            with torch.autocast("cuda", dtype=torch.float16):
                logp, out_len = model(speech.to(rank), speech_len)
            loss = ctc(logp.float().transpose(0, 1), text, out_len, text_len)
            loss = loss / update_every
            scaler.scale(loss).backward()

        if flush:
            scaler.unscale_(optimizer)
            grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            scaler.step(optimizer)
            scaler.update()
            noam.step()
            optimizer.zero_grad(set_to_none=True)
            print(f"{step}/{n_batches}: loss {loss.item() * update_every:.3f}, norm {grad_norm:.2f}")
