# options: --nproc 2 --steps 4
"""Each rank clips its own shard by its own norm."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

dist.init_process_group("gloo")
torch.manual_seed(0)
model = FSDP(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)), device_id=torch.device("cpu"))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for x in torch.randn(40, 8, 8):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), 20 * x[:, :1])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)  # confirmed: GL505
    optimizer.step()
dist.destroy_process_group()
