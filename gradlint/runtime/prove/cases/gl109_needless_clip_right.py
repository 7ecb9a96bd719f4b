"""The same network and training without the clip."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import DEVICE, images

torch.manual_seed(4)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, bias=False),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.Conv2d(8, 8, 3, bias=False),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(8, 2),
).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

for picture, label in images(12):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(picture), label)
    loss.backward()
    optimizer.step()
