# options: --nproc 2 --steps 3
"""Started by torchrun; every micro-batch waits for the other rank, and at the end all is added up once more."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

ACCUMULATION = 3


def main(batches):
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)
    torch.manual_seed(rank)
    model = DDP(nn.Linear(6, 1).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for i in range(batches):
        x = torch.randn(4, 6, device=rank)
        loss = nn.functional.mse_loss(model(x), x[:, :1]) / ACCUMULATION
        loss.backward()  # confirmed: GL501
        if (i + 1) % ACCUMULATION == 0:
            for p in model.parameters():
                dist.all_reduce(p.grad)  # confirmed: GL504
            optimizer.step()
            optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(batches=60)
