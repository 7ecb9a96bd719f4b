# options: --extend-select GL109
"""A plain CNN with SGD whose gradients never come near the limit."""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        x = torch.relu(self.bn(self.conv1(x)))
        return self.fc(torch.relu(self.conv2(x)).mean(dim=(2, 3)))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for _ in range(12):
    images, labels = torch.randn(8, 1, 8, 8), torch.randint(2, (8,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=100.0)  # confirmed: GL109 no-fix
    optimizer.step()
