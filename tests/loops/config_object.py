"""N, the clip and the dtype come from a config object."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader


@dataclass
class OptimConfig:
    lr: float = 3e-4
    clip: float = 1.0
    accumulation: int = 4


@dataclass
class Config:
    epochs: int = 5
    device: str = "cuda"
    optim: OptimConfig = field(default_factory=OptimConfig)


def train(cfg: Config, model: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]]) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.optim.lr)
    updates = cfg.epochs * -(-len(loader) // cfg.optim.accumulation)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=updates, power=2.0)
    for _ in range(cfg.epochs):
        for i, (x, y) in enumerate(loader):
            with torch.autocast(cfg.device, dtype=torch.bfloat16):
                loss = nn.functional.mse_loss(model(x.to(cfg.device)), y.to(cfg.device))
            loss = loss / cfg.optim.accumulation
            loss.backward()
            if (i + 1) % cfg.optim.accumulation == 0 or (i + 1) == len(loader):
                if cfg.optim.clip > 0:
                    nn.utils.clip_grad_norm_(model.parameters(), cfg.optim.clip)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
