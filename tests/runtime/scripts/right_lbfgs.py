"""The closure clears, computes and clips; the optimizer calls it as often as it likes."""
import torch
from torch import nn

x = torch.linspace(-1, 1, 64).unsqueeze(1)
y = torch.sin(3 * x)
model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)).double()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)
for _ in range(10):

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x.double()), y.double())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        return loss

    optimizer.step(closure)
