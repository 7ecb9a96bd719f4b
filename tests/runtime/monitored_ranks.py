"""Two ranks that train with DDP, FSDP2 and FSDP1 while rank 0 alone is watched; what it saw goes to the output as JSON.

`python -m tests.runtime.monitored_ranks`
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.multiprocessing.spawn import spawn
from torch.nn.utils import clip_grad_norm_

from gradlint.runtime import GradientMonitor
from tests.runtime.monitored import backward, loss_of, network

RANKS = 2
LIMIT = 0.01


def watched(rank: int, model: nn.Module, clip: Callable[[], Any]) -> dict[str, Any]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = torch.Generator().manual_seed(rank)
    monitor = GradientMonitor(model, optimizer, every=2)
    if rank == 0:
        monitor.start()
    norms = []
    for _ in range(6):
        optimizer.zero_grad()
        backward(loss_of(model, torch.randn(8, 4, generator=batches)))
        norm = clip()
        norms.append(float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm))
        optimizer.step()
    monitor.close()
    data = monitor.data
    return {
        "norms": norms,
        "samples": [(s.step, s.norm, s.used, s.clipped, s.shard, s.label) for s in data.samples],
        "names": [layer.name for sample in data.samples[:1] for layer in sample.layers],
        "clips": [(c.function, c.calls, c.active, c.percentile90) for c in data.clips],
        "notes": data.notes,
        "findings": [finding.message for finding in data.findings],
    }


def ddp(rank: int) -> dict[str, Any]:
    model = nn.parallel.DistributedDataParallel(network())
    return watched(rank, model, lambda: clip_grad_norm_(model.parameters(), LIMIT))


def fsdp2(rank: int) -> dict[str, Any]:
    from torch.distributed.fsdp import fully_shard

    model = network()
    fully_shard(model, mesh=init_device_mesh("cpu", (RANKS,)))
    return watched(rank, model, lambda: clip_grad_norm_(model.parameters(), LIMIT))


def fsdp1(rank: int) -> dict[str, Any]:
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(network(), device_id=torch.device("cpu"), use_orig_params=True)
    return watched(rank, model, lambda: model.clip_grad_norm_(LIMIT))


def work(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/ranks", rank=rank, world_size=RANKS)
    found = {part.__name__: part(rank) for part in (ddp, fsdp2, fsdp1)}
    Path(folder, f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        start: Any = spawn
        start(work, (folder,), nprocs=RANKS)
        print(Path(folder, "0.json").read_text(encoding="utf-8"))
