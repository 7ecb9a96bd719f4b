"""Lists of optimizers: muon-like for matrices, Adam for the rest, all zeroed and stepped in loops."""

import torch


def split_parameters(model):
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    return matrices, vectors


def train(model, batches, steps=1000, accumulate=2):
    matrices, vectors = split_parameters(model)
    optimizers = [torch.optim.SGD(matrices, lr=0.02, momentum=0.95), torch.optim.AdamW(vectors, lr=3e-4)]
    schedulers = [torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.0, total_iters=steps) for opt in optimizers]
    for step in range(steps):
        for _ in range(accumulate):
            x, y = next(batches)
            loss = model(x, y) / accumulate
            loss.backward()
        for opt, sched in zip(optimizers, schedulers, strict=True):
            opt.step()
            sched.step()
        model.zero_grad(set_to_none=True)
        if step % 20 == 0:
            print(step, accumulate * loss.item())
