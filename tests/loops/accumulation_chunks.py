"""Each batch is cut into chunks that fit; zero_grad opens the window."""

import torch


def train_large_batches(model, loader, criterion, chunk=32, lr=0.05):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[30_000, 60_000])
    scaler = torch.amp.GradScaler("cuda")
    for features, labels in loader:
        optimizer.zero_grad(set_to_none=True)
        pieces = list(zip(features.split(chunk), labels.split(chunk), strict=True))
        for x, y in pieces:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = criterion(model(x.cuda()), y.cuda())
            scaler.scale(loss / len(pieces)).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
