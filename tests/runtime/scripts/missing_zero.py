import torch
from torch import nn

model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(12):
    loss = model(torch.randn(4, 8)).pow(2).mean()
    loss.backward()  # confirmed: GL401
    optimizer.step()
