"""A compiled model; activations recomputed in the backward, also the old way, which runs a backward inside of it."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 12), nn.Linear(12, 1)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


head = torch.compile(Net(), backend="eager")
body = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.05)
for x in torch.randn(20, 8, 6):
    optimizer.zero_grad(set_to_none=True)
    hidden = checkpoint(body, x.requires_grad_(True), use_reentrant=True)
    hidden = checkpoint(body, hidden, use_reentrant=False)
    loss = nn.functional.mse_loss(head(hidden), x[:, :1])
    loss.backward()
    torch.nn.utils.clip_grad_norm_([*body.parameters(), *head.parameters()], 1.0)
    optimizer.step()
