# options: --steps 4
"""The script spawns its own ranks; they exchange all micro-batches but the last."""
import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WINDOW = 2


def work(rank, world, port):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    optimizer.zero_grad()
    for i, x in enumerate(torch.randn(60, 4, 4)):
        last = (i + 1) % WINDOW == 0
        with model.no_sync() if last else nullcontext():
            loss = nn.functional.mse_loss(model(x), x[:, :1]) / WINDOW
            loss.backward()  # confirmed: GL503
        if last:
            optimizer.step()
            optimizer.zero_grad()
    dist.destroy_process_group()


def free_port():
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


if __name__ == "__main__":
    mp.spawn(work, args=(2, free_port()), nprocs=2)
