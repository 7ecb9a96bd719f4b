"""`enabled=` switches autocast and scaler together, so the loop itself has no branch."""

import torch


def train_segmentation(unet, train_loader, cfg):
    device_type = cfg["device"].split(":")[0]
    half = bool(cfg["amp"]) and device_type == "cuda"
    optimizer = torch.optim.RMSprop(unet.parameters(), lr=cfg["lr"], weight_decay=1e-8, momentum=0.999)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=5)
    grad_scaler = torch.amp.GradScaler(device_type, enabled=half)
    criterion = torch.nn.BCEWithLogitsLoss()

    for epoch in range(cfg["epochs"]):
        unet.train()
        total = 0.0
        for batch in train_loader:
            images = batch["image"].to(cfg["device"], memory_format=torch.channels_last)
            masks = batch["mask"].to(cfg["device"])

            with torch.autocast(device_type, enabled=half):
                masks_pred = unet(images)
                loss = criterion(masks_pred.squeeze(1), masks.float())

            optimizer.zero_grad(set_to_none=True)
            grad_scaler.scale(loss).backward()
            grad_scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
            grad_scaler.step(optimizer)
            grad_scaler.update()
            total += loss.item()

        score = evaluate(unet, cfg)
        plateau.step(score)
        print(f"epoch {epoch}: loss {total / len(train_loader):.4f}, dice {score:.3f}")


@torch.no_grad()
def evaluate(unet, cfg):
    unet.eval()
    hits = [((unet(x) > 0) == y).float().mean() for x, y in cfg["val"]]
    return torch.stack(hits).mean().item()
