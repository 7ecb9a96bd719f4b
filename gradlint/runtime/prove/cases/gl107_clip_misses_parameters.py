"""The clip is given the teacher, which is not trained, instead of the student."""

import torch
from torch import nn

from gradlint.runtime.prove.lab import batches, network

student = network()
teacher = network()
optimizer = torch.optim.SGD(student.parameters(), lr=0.01)

for x, y in batches(4, spread=20.0):
    with torch.no_grad():
        wanted = y + teacher(x) - teacher(x)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(student(x), wanted)
    loss.backward()
    nn.utils.clip_grad_norm_(teacher.parameters(), max_norm=1.0)  # expect: GL107
    optimizer.step()
