"""A recurrent network meets a batch with targets that are far too large, and nothing limits the step."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import DEVICE, batches


class Sum(nn.Module):
    """Learns the sum of a sequence."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 16, batch_first=True)
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        states, _ = self.lstm(x.unsqueeze(-1))
        return self.head(states[:, -1])


torch.manual_seed(3)
model = Sum().to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for i, (x, _) in enumerate(batches(6)):
    y = x.sum(dim=1, keepdim=True)
    if i == 4:
        y = 1000 * y
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()  # expect: GL108
