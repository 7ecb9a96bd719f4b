"""Groups by depth and by kind, each clipped by itself; the body is thawed after a few updates."""

import torch


def grouped(model, lr, decay=0.5, weight_decay=0.1):
    groups = []
    for depth, (name, p) in enumerate(reversed(list(model.named_parameters()))):
        rate = lr * decay ** (depth // 2)
        groups.append({"params": [p], "lr": rate, "weight_decay": 0.0 if name.endswith("bias") else weight_decay})
    return groups


def update(optimizer, limit):
    for group in optimizer.param_groups:
        trained = [p for p in group["params"] if p.requires_grad]
        if trained:
            torch.nn.utils.clip_grad_norm_(trained, limit)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def train(model, loader, lr=0.05, limit=1.0, window=2, thaw=4):
    optimizer = torch.optim.AdamW(grouped(model, lr), lr=lr)
    body = list(model.parameters())[:-2]
    for p in body:
        p.requires_grad_(False)
    updates = 0
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x), y) / window
        loss.backward()
        if (i + 1) % window == 0 or i + 1 == len(loader):
            update(optimizer, limit)
            updates += 1
            if updates == thaw:
                for p in body:
                    p.requires_grad_(True)
