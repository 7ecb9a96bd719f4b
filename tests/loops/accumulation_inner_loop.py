"""An inner loop over micro-batches; the update follows it."""

import time

import torch

learning_rate = 6e-4
max_iters = 10_000
gradient_accumulation_steps = 5
grad_clip = 1.0


def cosine(it, top=learning_rate, warm=100):
    return top * min(1.0, (it + 1) / warm) * (1.0 - it / max_iters)


def pretrain(model, get_batch):
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), fused=True)
    X, Y = get_batch("train")
    t0 = time.time()
    for it in range(max_iters):
        for group in optimizer.param_groups:
            group["lr"] = cosine(it)

        for _ in range(gradient_accumulation_steps):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits, loss = model(X, Y)
                loss = loss / gradient_accumulation_steps
            X, Y = get_batch("train")
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

        if it % 10 == 0:
            dt, t0 = time.time() - t0, time.time()
            print(f"iter {it}: loss {loss.item() * gradient_accumulation_steps:.4f}, {dt * 100:.1f} ms")
