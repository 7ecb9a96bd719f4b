"""Scripts that were written for CUDA run on the CPU where there is none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from gradlint.runtime.launch.run import Job, Outcome, run
from gradlint.runtime.recording import Met
from tests.patience import PATIENCE
from tests.runtime.forked import forked_scripts  # noqa: F401 - a fixture
from tests.runtime.launched import write

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(torch.cuda.is_available(), reason="the scripts are sent to the CPU where there is no CUDA"),
]

ASKING = """
import pickle
import torch
import torch.nn as nn

torch.cuda.set_device(0)
torch.cuda.manual_seed_all(1)
torch.cuda.synchronize()
torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats()
device = torch.device("cuda", torch.cuda.current_device())
assert not torch.cuda.is_available() and device.type == "cuda"

plain = torch.ones(2)
made = {
    "zeros": torch.zeros(2, device="cuda"),
    "tensor": torch.tensor([1.0, 2.0], device=device),
    "number": torch.arange(2, device=0),
    "like": torch.rand_like(plain, device=device),
    "new": plain.new_full((2,), 3.0, device="cuda:1"),
    "pinned": torch.empty(2, pin_memory=True),
    "to": plain.to("cuda:0", non_blocking=True),
    "to device": plain.to(device, torch.float64),
    "to keyword": plain.to(device="cuda", dtype=torch.float16),
    "to number": plain.to(0),
    "to other": plain.to(torch.zeros(1, dtype=torch.int32)),
    "cuda": plain.cuda(0, non_blocking=True),
    "pin": plain.pin_memory(),
    "type": plain.type("torch.cuda.HalfTensor"),
    "legacy": torch.cuda.FloatTensor([1.0]),
    "normal": torch.randn(2, generator=torch.Generator(device="cuda").manual_seed(3), device="cuda"),
}
with device:
    made["in a block"] = torch.ones(2)
torch.set_default_device("cuda")
made["by default"] = torch.ones(2)
torch.set_default_device(None)
with torch.device("meta"):
    assert torch.ones(2).device.type == "meta"
assert plain.to(torch.device("meta")).device.type == "meta"
for name, tensor in made.items():
    assert tensor.device.type == "cpu", name
assert made["to device"].dtype == torch.float64 and made["to keyword"].dtype == torch.float16
assert made["type"].dtype == torch.float16 and made["to other"].dtype == torch.int32
assert isinstance(torch.default_generator, torch.Generator)

stream, begin, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
begin.record()
with torch.cuda.stream(stream), torch.cuda.device(0):
    made["zeros"].record_stream(torch.cuda.current_stream())
stream.wait_stream(torch.cuda.current_stream())
end.record()
assert begin.elapsed_time(end) >= 0
torch.cuda.nvtx.range_push("step")

import io
saved = io.BytesIO()
torch.save(made["zeros"], saved)
saved.seek(0)
assert torch.load(saved, map_location=device).device.type == "cpu"

@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    return x + torch.zeros(2)

assert scripted(plain).tolist() == [1.0, 1.0]

compiled = torch.compile(lambda x: x + torch.zeros(2), backend="eager", fullgraph=True)
assert compiled(plain).tolist() == [1.0, 1.0]
assert torch.vmap(lambda x: x + torch.ones(2))(torch.zeros(3, 2)).sum() == 6
assert pickle.loads(pickle.dumps(torch.zeros)) is torch.zeros

model = nn.Sequential(nn.Linear(4, 8, device="cuda"), nn.ReLU(), nn.Linear(8, 1)).to(device).cuda()
model = nn.DataParallel(model, device_ids=[0])
data = torch.utils.data.TensorDataset(torch.rand(64, 4))
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.cuda.amp.GradScaler()
while True:
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=8, pin_memory=True):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch.cuda(non_blocking=True)).float().mean()
        assert loss.dtype == torch.float32
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""

RANKS = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group(backend="nccl", device_id=torch.device("cuda", local))
assert dist.get_backend() == "gloo"
total = torch.tensor([float(local)], device=local)
dist.all_reduce(total, op=dist.ReduceOp.AVG)
assert total.item() == 0.5
dist.all_reduce(total)
assert total.item() == 1.0
dist.barrier(device_ids=[local])
group = dist.new_group([0, 1], backend="nccl")
dist.all_reduce(total, dist.ReduceOp.MAX, group)
mesh = dist.init_device_mesh("cuda", (2,))
assert mesh.device_type == "cpu"
from torch.distributed.fsdp import FullyShardedDataParallel

FullyShardedDataParallel(torch.nn.Linear(2, 1).cuda())(torch.rand(4, 2).cuda()).mean().backward()
model = DDP(torch.nn.Linear(2, 1).to(local), device_ids=[local], output_device=local)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    optimizer.zero_grad()
    model(torch.rand(4, 2).to(local)).mean().backward()
    optimizer.step()
"""


PRETENDING = """
import torch

assert torch.cuda.is_available()
assert torch.cuda.device_count() == 2
assert torch.nn.DataParallel(torch.nn.Linear(2, 1)).device_ids == []  # torch itself knows better

device = torch.device("cuda", torch.cuda.device_count() - 1)
model = torch.nn.Linear(2, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        model(torch.rand(4, 2, device=device)).mean().backward()
    optimizer.step()
"""

COMPILED = """
import torch

model = torch.nn.Linear(2, 1)
compiled = torch.compile(lambda x: x.sin() * 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.cuda.get_device_properties(0)
while True:
    optimizer.zero_grad()
    compiled(model(torch.rand(4, 2))).mean().backward()
    optimizer.step()
"""


def _run(folder: Path, text: str, nproc: int = 1, pretended: int = 0) -> Outcome:
    write(folder, {"train.py": text})
    outcome = run(Job(folder / "train.py", steps=3, limit=PATIENCE, nproc=nproc, pretended=pretended))
    assert outcome.traceback == ""
    assert outcome.code == 0
    return outcome


def test_a_script_for_cuda(tmp_path: Path) -> None:
    (recorded,) = _run(tmp_path, ASKING).recordings
    assert recorded.steps == 3
    assert "the script asks for a cuda device; this run has none, and put it on the CPU" in recorded.notes
    (scaler,) = (met for met in recorded.of(Met) if met.role == "scaler")
    assert scaler.enabled


def test_ranks_for_nccl(tmp_path: Path) -> None:
    recordings = _run(tmp_path, RANKS, nproc=2).recordings
    assert [r.steps for r in recordings] == [3, 3]
    assert all("gloo connects the ranks in place of nccl" in r.notes for r in recordings)


def test_a_script_that_is_told_of_gpus(tmp_path: Path) -> None:
    (recorded,) = _run(tmp_path, PRETENDING, pretended=2).recordings
    assert recorded.steps == 3
    assert "the script was told of 2 GPUs; there are none" in recorded.notes


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a compiler")
def test_inductor_compiles_for_the_cpu(tmp_path: Path) -> None:
    """What scripts are told of a card must not reach torch's compiler."""
    (recorded,) = _run(tmp_path, COMPILED).recordings
    assert recorded.steps == 3


def test_a_script_for_the_cpu_is_told_nothing(tmp_path: Path) -> None:
    text = """
    import torch
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(2, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.zeros(4, 2, device=device)).mean().backward()
        optimizer.step()
    """
    (recorded,) = _run(tmp_path, text).recordings
    assert recorded.steps == 2
    assert recorded.notes == []
