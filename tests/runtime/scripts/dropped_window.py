# options: --unsafe-fixes --steps 6
"""Ten batches, windows of four: two batches of each epoch are never used for a step. The loader has workers."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        x = torch.full((3,), index / 40)
        return x, x.sum()


def train(epochs=4, window=4):
    loader = DataLoader(Numbers(), batch_size=4, shuffle=True, num_workers=1)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        optimizer.zero_grad()
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.mse_loss(model(x).squeeze(1), y) / window
            loss.backward()
            if (i + 1) % window == 0:
                optimizer.step()  # confirmed: GL304
                optimizer.zero_grad()


if __name__ == "__main__":
    train()
