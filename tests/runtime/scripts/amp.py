import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler("cuda")

    def fit(self):
        for _ in range(30):
            self.optimizer.zero_grad()
            x = torch.randn(16, 8)
            loss = nn.functional.mse_loss(self.model(x), x.sum(dim=1, keepdim=True))
            self.scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=1.0)  # confirmed: GL201
            self.scaler.step(self.optimizer)
            self.scaler.update()


if __name__ == "__main__":
    Trainer().fit()
