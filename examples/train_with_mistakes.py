"""Trains a small classifier with mixed precision and gradient accumulation; it runs, and it is wrong in several places.

Try `gradlint check examples/train_with_mistakes.py`.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_loader(batch_size: int) -> DataLoader:
    inputs = torch.randn(512, 32)
    targets = (inputs.sum(dim=1) > 0).long()
    return DataLoader(TensorDataset(inputs, targets), batch_size=batch_size, shuffle=True)


def train(args: argparse.Namespace) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs * 8)
    scaler = torch.amp.GradScaler(device)
    criterion = nn.CrossEntropyLoss()
    loader = make_loader(args.batch_size)

    for epoch in range(args.epochs):
        for step, (inputs, targets) in enumerate(loader):
            inputs, targets = inputs.to(device), targets.to(device)

            with torch.autocast(device_type=device, dtype=torch.float16):
                loss = criterion(model(inputs), targets)

            scaler.scale(loss).backward()

            if (step + 1) % args.accumulation_steps == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
                scheduler.step()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad

        print(f"epoch {epoch}: loss {loss.item():.4f}")


def finetune_head(model: nn.Module, head: nn.Module, loader: DataLoader) -> None:
    optimizer = torch.optim.SGD(head.parameters(), lr=0.01)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(head(model(inputs)), targets)
        loss.backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accumulation-steps", type=int, default=4)
    train(parser.parse_args())
