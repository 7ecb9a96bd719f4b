# arguments: --lr 0.05 --width 4
"""A limit that cuts every step, given on the command line."""
import argparse

import torch
from torch import nn

MAX_NORM = 0.001


def train(args):
    model = nn.Linear(args.width, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for _ in range(args.steps):
        x = torch.randn(16, args.width)
        loss = (model(x) - x.sum(dim=1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)  # confirmed: GL105 no-fix
        optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--lr", type=float, required=True)
    train(parser.parse_args())
