"""The loop lives in another file of the same folder."""
import torch
from engine import train_one_epoch
from nets import make

torch.manual_seed(3)
model = make(8)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for epoch in range(3):
    train_one_epoch(model, optimizer, [torch.randn(8, 8) for _ in range(12)], accum_iter=3)
