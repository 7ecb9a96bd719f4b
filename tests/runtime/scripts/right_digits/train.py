# options: --steps 6
# arguments: --batch-size 16 --epochs 3 --log-interval 2
"""Trains a small net on pictures of digits, with a test between the epochs."""
import argparse

import torch
from digits import Digits
from net import Net
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader


def train(args, model, device, loader, optimizer, epoch):
    model.train()
    for number, (images, labels) in enumerate(loader):
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(model(images), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        if number % args.log_interval == 0:
            print(f"epoch {epoch} [{number * len(images)}/{len(loader.dataset)}] loss {loss.item():.4f}")


@torch.no_grad()
def test(model, device, loader):
    model.eval()
    right = 0
    for images, labels in loader:
        right += model(images.to(device)).argmax(dim=1).eq(labels.to(device)).sum().item()
    print(f"right: {right} of {len(loader.dataset)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--clip", type=float, default=0.5)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--log-interval", type=int, default=10)
    parser.add_argument("--no-cuda", action="store_true")
    parser.add_argument("--save-model", action="store_true")
    args = parser.parse_args()
    device = torch.device("cuda" if not args.no_cuda and torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    train_loader = DataLoader(Digits(64), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(Digits(32), batch_size=32)
    model = Net().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    for epoch in range(1, args.epochs + 1):
        train(args, model, device, train_loader, optimizer, epoch)
        test(model, device, test_loader)
        scheduler.step()
    if args.save_model:
        torch.save(model.state_dict(), "digits.pt")


if __name__ == "__main__":
    main()
