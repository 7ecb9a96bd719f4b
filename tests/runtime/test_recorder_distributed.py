"""Two processes on one machine (gloo): who exchanged what, and whether the ranks agree."""

from __future__ import annotations

import os
import socket
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.runtime.zygote import python

torch = pytest.importorskip("torch")
if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("this torch has no gloo", allow_module_level=True)

from gradlint.runtime.launch.orders import Orders  # noqa: E402
from gradlint.runtime.lines import load  # noqa: E402
from gradlint.runtime.recording import (  # noqa: E402
    BackwardRan,
    Clipped,
    Edited,
    Forwarded,
    Met,
    Recording,
    Stepped,
    Synced,
)
from tests.runtime.test_recorder_process import BOOT  # noqa: E402

pytestmark = pytest.mark.slow

START = """
import os, sys, torch, torch.distributed as dist
from contextlib import nullcontext
from torch import nn
dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
def draw():
    return torch.randn(3, 4)
def data_of_this_rank():
    torch.manual_seed(dist.get_rank() + 1)
def done():
    if "WEIGHTS" in os.environ:
        torch.save(net.state_dict(), os.environ["WEIGHTS"] + os.environ["RANK"])
"""

#: each mode is one training run; all of them in one pair of processes
DDP = (
    START
    + """
def train(mode, hook=None, builtin=None):
    torch.manual_seed(0)
    for part in net:
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    model = nn.parallel.DistributedDataParallel(net)
    if hook is not None:
        model.register_comm_hook(None, hook)
    if builtin is not None:
        model._register_builtin_comm_hook(builtin)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data_of_this_rank()
    for i in range(4):
        last = i % 2 == 1
        quiet = {"always": False, "inverted": last}.get(mode, not last)
        if mode == "forward outside":
            loss = model(draw()).pow(2).mean() / 2
        with model.no_sync() if quiet else nullcontext():
            if mode != "forward outside":
                loss = model(draw()).pow(2).mean() / 2
            loss.backward()
        if last:
            if mode == "by hand":
                for p in model.parameters():
                    dist.all_reduce(p.grad)
                    p.grad /= dist.get_world_size()
            optimizer.step()
            optimizer.zero_grad()

def mine(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    buffer = bucket.buffer().div_(dist.get_world_size())
    return dist.all_reduce(buffer, async_op=True).get_future().then(lambda future: future.value()[0])

for mode in ("right", "always", "forward outside", "inverted", "by hand"):
    train(mode)
train("right", hook=mine)
train("right", builtin=dist.BuiltinCommHookType.ALLREDUCE)
done()
"""
)

FSDP = (
    START
    + """
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
import copy
for kind in ("FSDP", "fully_shard"):
    model = copy.deepcopy(net)
    if kind == "FSDP":
        model = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
    else:
        fully_shard(model[0])
        model = fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    data_of_this_rank()
    for i in range(4):
        last = i % 2 == 1
        if kind == "fully_shard":
            model.set_requires_gradient_sync(last)
        with model.no_sync() if kind == "FSDP" and not last else nullcontext():
            (model(draw()).pow(2).mean() / 2).backward()
        if last:
            if kind == "FSDP":
                model.clip_grad_norm_(0.1)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad()
    for _ in range(2):
        model(draw()).pow(2).mean().backward()
"""
)


def two_ranks(folder: Path, code: str, recorded: bool = True) -> list[Recording]:
    script, boot = folder / "script.py", folder / "boot.py"
    script.write_text(textwrap.dedent(code), encoding="utf-8")
    boot.write_text(BOOT, encoding="utf-8")
    (folder / "events").mkdir(exist_ok=True)
    orders = Orders(str(folder / "events"), str(script), steps=1000).write()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    weights = str(folder / ("recorded" if recorded else "plain"))
    running = []
    for rank in range(2):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
               "WEIGHTS": weights, "OMP_NUM_THREADS": "1"}  # fmt: skip
        command = python(str(boot), str(orders)) if recorded else python(str(script))
        running.append(subprocess.Popen(command, env=env))
    try:
        assert [process.wait(timeout=PATIENCE) for process in running] == [0, 0]
    finally:
        for process in running:
            process.kill()
    return load(folder / "events") if recorded else []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ddp")


@pytest.fixture(scope="module")
def ddp(folder: Path) -> list[Recording]:
    recordings = two_ranks(folder, DDP)
    assert [(r.rank, r.world, r.notes, r.end and r.end.how) for r in recordings] == [
        (0, 2, [], "finished"),
        (1, 2, [], "finished"),
    ]
    return recordings


def of_run(recording: Recording, number: int) -> list[BackwardRan]:
    """The backwards of the n-th training run."""
    return [b for b in recording.of(BackwardRan) if b.optimizers == (f"optimizer{number}",)]


@pytest.mark.parametrize(
    ("number", "syncs", "forward", "backward", "reduced"),
    [
        (1, [0, 1, 0, 1], [False, True] * 2, [False, True] * 2, [False, True] * 2),
        (2, [1, 1, 1, 1], [True] * 4, [True] * 4, [True] * 4),
        (3, [1, 1, 1, 1], [True] * 4, [False, True] * 2, [True] * 4),
        (4, [1, 0, 1, 0], [True, False] * 2, [True, False] * 2, [True, False] * 2),
        (6, [0, 1, 0, 1], [False, True] * 2, [False, True] * 2, [False, True] * 2),
        (7, [0, 1, 0, 1], [False, True] * 2, [False, True] * 2, [False, True] * 2),
    ],
    ids=["right", "always", "forward-outside", "inverted", "own-hook", "builtin-hook"],
)
def test_exchanges(
    ddp: list[Recording], number: int, syncs: list[int], forward: list[bool], backward: list[bool], reduced: list[bool]
) -> None:
    for recording in ddp:
        backwards = of_run(recording, number)
        assert [b.syncs for b in backwards] == syncs
        assert [b.forward_sync for b in backwards] == forward
        assert [b.backward_sync for b in backwards] == backward
        assert [b.gradients[0].reduced for b in backwards] == reduced
        assert {b.wrap for b in backwards} == {"DistributedDataParallel"}
        model = backwards[0].model
        assert sum(s.model == model for s in recording.of(Synced)) == sum(syncs)
        assert [f.sync for f in recording.of(Forwarded) if f.model == model] == forward
        met = recording.met(model)
        assert met is not None
        assert (met.role, met.type) == ("model", "DistributedDataParallel")


def test_only_the_inverted_run_makes_ranks_disagree(ddp: list[Recording]) -> None:
    for number in range(1, 8):
        weights = [[s.weights for s in r.of(Stepped) if s.owner == f"optimizer{number}"] for r in ddp]
        assert len(weights[0]) == 2
        assert (weights[0] == weights[1]) is (number != 4)


def test_a_reduction_by_hand_is_an_edit(ddp: list[Recording]) -> None:
    edits = [(e.how, e.factor) for e in ddp[0].of(Edited)]
    assert edits == [("reduce", None), ("divide", pytest.approx(0.5))] * 2


def test_synced_elements_are_those_of_the_model(ddp: list[Recording]) -> None:
    assert {s.elements for s in ddp[0].of(Synced)} == {4 * 8 + 8 + 8 * 2 + 2}


def test_ddp_gives_the_same_weights_with_and_without_the_recorder(folder: Path, ddp: list[Recording]) -> None:
    two_ranks(folder, DDP, recorded=False)
    for rank in ("0", "1"):
        recorded, plain = (torch.load(folder / f"{name}{rank}") for name in ("recorded", "plain"))
        assert all(torch.equal(recorded[name], plain[name]) for name in plain)


@pytest.fixture(scope="module")
def fsdp(tmp_path_factory: pytest.TempPathFactory) -> list[Recording]:
    return two_ranks(tmp_path_factory.mktemp("fsdp"), FSDP)


@pytest.mark.parametrize(("number", "wrap", "count"), [(1, "FullyShardedDataParallel", 1), (2, "fully_shard", 2)])
def test_sharded_models(fsdp: list[Recording], number: int, wrap: str, count: int) -> None:
    for recording in fsdp:
        assert recording.notes == []
        *backwards, first, second = of_run(recording, number)
        assert (first.gradients[0].backwards, second.gradients[0].backwards) == (1, 2), "both exchanged, and added up"
        assert [b.syncs for b in backwards] == [0, count, 0, count]
        assert [b.gradients[0].reduced for b in backwards] == [False, True] * 2
        assert [b.gradients[0].backwards for b in backwards] == [1, 2, 1, 2]
        assert all(b.gradients[0].norm > 0 for b in backwards)
        assert {b.wrap for b in backwards} == {wrap}
        assert [s.how for s in recording.of(Synced) if s.model == backwards[0].model] == ["reduce-scatter"] * 4 * count
        assert [m.type for m in recording.of(Met) if m.id == backwards[0].model] == [wrap]
        assert all(s.weights is None for s in recording.of(Stepped))


def test_clips_of_sharded_models(fsdp: list[Recording]) -> None:
    for recording in fsdp:
        clips = list(recording.of(Clipped))
        assert [(c.function, c.wrap) for c in clips] == [
            ("FullyShardedDataParallel.clip_grad_norm_", "FullyShardedDataParallel"),
            ("clip_grad_norm_", "FullyShardedDataParallel"),
        ] * 2 + [("clip_grad_norm_", "fully_shard")] * 2
    whole = [next(r.of(Clipped)).returned for r in fsdp]
    assert whole[0] == pytest.approx(whole[1])
