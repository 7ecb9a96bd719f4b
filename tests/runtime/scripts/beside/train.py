"""Reads one file by a path relative to its own folder, and another beside `__file__`; leaves with sys.exit."""
import json
import sys
from pathlib import Path

import torch
from torch import nn

with open("settings.json") as file:
    settings = json.load(file)
numbers = [float(word) for word in (Path(__file__).parent / "numbers.txt").read_text().split()]
x = torch.tensor(numbers).view(-1, settings["width"])
model = nn.Linear(settings["width"], 1)
optimizer = torch.optim.SGD(model.parameters(), lr=settings["lr"])
for step in range(settings["steps"]):
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.zero_grad()  # confirmed: GL403
    optimizer.step()
sys.exit(0)
