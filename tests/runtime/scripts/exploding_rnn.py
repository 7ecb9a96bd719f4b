# options: --extend-select GL108 --unsafe-fixes
"""A recurrent net with nothing that keeps its gradients small."""
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 8, batch_first=True)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.rnn(x)[0])


model = Tagger()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
for _ in range(200):
    x = torch.randn(4, 6, 4)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), 1000 * x.sum(dim=-1, keepdim=True))
    loss.backward()
    optimizer.step()  # confirmed: GL108
