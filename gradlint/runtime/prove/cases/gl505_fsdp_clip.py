"""Each rank clips its shard of the gradient by the norm of that shard."""

import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

from gradlint.runtime.prove.lab import DEVICE, batches, join, network

join()
model = FullyShardedDataParallel(network(), device_id=torch.device(DEVICE))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for x, y in batches(4, spread=20.0):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)  # expect: GL505
    optimizer.step()
