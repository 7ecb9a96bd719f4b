"""GL5: what two ranks exchange, and whether they still agree afterwards."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from docs.facts.experiment import at_most, experiment, listed, row
from docs.facts.lab import Batch, N, batches, cosine, gradient, loss_of, network, norm, weights, whole
from docs.facts.ranks import RANKS, on_both_ranks
from gradlint.docs.facts import Row

_WINDOW = "Two ranks (DDP, gloo), one update of SGD after four micro-batches on each."


def own_batches() -> list[Batch]:
    """Each rank has other data."""
    mine = dist.get_rank() * N
    return batches(RANKS * N)[mine : mine + N]


class Counted:
    """A DDP model, and how often it exchanged gradients."""

    def __init__(self) -> None:
        self.exchanges = 0
        self.model = DistributedDataParallel(network())
        self.model.register_comm_hook(None, self._count)

    def _count(self, state, bucket):  # type: ignore[no-untyped-def]  # DDP refuses annotations that are strings
        self.exchanges += 1
        return allreduce_hook(dist.distributed_c10d._get_default_group(), bucket)


Turn = Callable[[DistributedDataParallel, Batch, AbstractContextManager[None]], None]


def whole_turn(model: DistributedDataParallel, batch: Batch, quiet: AbstractContextManager[None]) -> None:
    """Forward and backward inside."""
    with quiet:
        (loss_of(model, batch) / N).backward()


def backward_only(model: DistributedDataParallel, batch: Batch, quiet: AbstractContextManager[None]) -> None:
    loss = loss_of(model, batch) / N
    with quiet:
        loss.backward()


def forward_only(model: DistributedDataParallel, batch: Batch, quiet: AbstractContextManager[None]) -> None:
    with quiet:
        loss = loss_of(model, batch) / N
    loss.backward()


def window(turn: Turn, quiet_on: tuple[int, ...]) -> tuple[int, Tensor, Tensor]:
    """One update: how often gradients were exchanged, the gradient that the step used, and the weights afterwards."""
    counted = Counted()
    model = counted.model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, batch in enumerate(own_batches()):
        turn(model, batch, model.no_sync() if i in quiet_on else nullcontext())
    optimizer.step()
    dist.barrier()
    return counted.exchanges, gradient(model), weights(model)


Result = tuple[int, Tensor, Tensor]


def _exchanges(results: list[Result]) -> int:
    counts = {count for count, _, _ in results}
    assert len(counts) == 1, "the ranks exchanged differently often"
    return counts.pop()


def _apart(results: list[Result]) -> str:
    """How far the weights of the ranks are apart after the update, in lengths of the weights."""
    first, second = (moved for _, _, moved in results)
    return at_most(norm(first - second) / norm(first), 1e-6)


def _large_batch() -> Tensor:
    model = network()
    loss_of(model, whole(batches(RANKS * N))).backward()
    return gradient(model)


def _true(results: list[Result]) -> str:
    """How long the gradient of each rank is, compared with that of all samples in one batch."""
    return listed([norm(found) / norm(_large_batch()) for _, found, _ in results])


NEVER: tuple[int, ...] = ()
ALL_BUT_LAST = tuple(range(N - 1))
ONLY_LAST = (N - 1,)


@functools.cache
def _run(turn: Turn, quiet_on: tuple[int, ...]) -> list[Result]:
    return on_both_ranks(functools.partial(window, turn, quiet_on))


@experiment("GL501", _WINDOW)
def missing_no_sync() -> Iterator[Row]:
    bad, good = _run(whole_turn, NEVER), _run(whole_turn, ALL_BUT_LAST)
    yield row("all-reduces per update", _exchanges(bad), _exchanges(good))
    yield row("difference between the ranks afterwards", _apart(bad), _apart(good))
    yield row("gradient / that of all samples in one batch, rank 0 and 1", _true(bad), _true(good))


@experiment("GL502", _WINDOW)
def forward_outside_no_sync() -> Iterator[Row]:
    bad, good = _run(backward_only, ALL_BUT_LAST), _run(whole_turn, ALL_BUT_LAST)
    yield row("all-reduces per update", _exchanges(bad), _exchanges(good))
    yield row("difference between the ranks afterwards", _apart(bad), _apart(good))
    nothing, forward = _run(whole_turn, NEVER), _run(forward_only, ALL_BUT_LAST)
    yield row(
        "all-reduces with no `no_sync()` at all, and with only the forward inside",
        _exchanges(nothing),
        _exchanges(forward),
    )


@experiment("GL503", _WINDOW)
def no_sync_on_boundary() -> Iterator[Row]:
    bad, good = _run(whole_turn, ONLY_LAST), _run(whole_turn, ALL_BUT_LAST)
    yield row("all-reduces per update", _exchanges(bad), _exchanges(good))
    yield row("difference between the ranks afterwards", _apart(bad), _apart(good))
    bad = _run(whole_turn, tuple(range(N)))
    yield row("all-reduces per update, if `no_sync()` is round all four", _exchanges(bad), _exchanges(good))
    yield row("difference between the ranks after that", _apart(bad), _apart(good))


def reduced_again(divide: bool | None) -> tuple[int, Tensor, Tensor]:
    """DDP's gradient, reduced once more by hand (and divided by the world size), or left alone."""
    counted = Counted()
    loss_of(counted.model, own_batches()[0]).backward()
    calls = counted.exchanges
    for p in counted.model.parameters() if divide is not None else ():
        dist.all_reduce(p.grad)
        calls += 1
        if divide and p.grad is not None:
            p.grad /= dist.get_world_size()
    return calls, gradient(counted.model), weights(counted.model)


@experiment("GL504", "Two ranks (DDP, gloo), one batch on each; a network with four parameters.")
def manual_gradient_sync() -> Iterator[Row]:
    right = on_both_ranks(functools.partial(reduced_again, None))
    summed = on_both_ranks(functools.partial(reduced_again, False))
    averaged = on_both_ranks(functools.partial(reduced_again, True))
    yield row("all-reduces per update", _exchanges(summed), _exchanges(right))
    reference = norm(right[0][1])
    yield row("gradient / DDP's own, if the sum is not divided", norm(summed[0][1]) / reference, 1.0)
    yield row("gradient / DDP's own, if it is divided by the world size", norm(averaged[0][1]) / reference, 1.0)


def sharded_clip(own_method: bool) -> tuple[float, Tensor, Tensor]:
    """FSDP1: the norm that the clip returns here, and this rank's shard of the gradient before and behind it."""
    model = FullyShardedDataParallel(network(), device_id=torch.device("cpu"))
    loss_of(model, own_batches()[0]).backward()
    before = gradient(model).clone()
    returned = model.clip_grad_norm_(1.0) if own_method else nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return float(returned), before, gradient(model)


def fsdp2_clip() -> float:
    """FSDP2: its gradients are DTensors, which know of the other ranks' shards."""
    model = network()
    fully_shard(model)
    loss_of(model, own_batches()[0]).backward()
    returned = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert isinstance(returned, DTensor)
    return float(returned.full_tensor())


# FSDP1 measures norms in float32, whatever the gradients are, and refuses to narrow them
@experiment("GL505", "Two ranks (FSDP1, gloo), one batch on each; max_norm=1.0.", torch.float32)
def fsdp_clip() -> Iterator[Row]:
    norms, lengths, directions = [], [], []
    for own_method in (False, True):
        results = on_both_ranks(functools.partial(sharded_clip, own_method))
        norms.append(listed([returned for returned, _, _ in results]))
        before = torch.cat([shard for _, shard, _ in results])
        behind = torch.cat([shard for _, _, shard in results])
        lengths.append(norm(behind))
        directions.append(cosine(before, behind))
    yield row("norm that the clip returns, rank 0 and 1", *norms)
    yield row("norm of the whole gradient behind the clip", *lengths)
    yield row("cosine to the gradient before it", *directions)
    right = on_both_ranks(fsdp2_clip)
    yield row("FSDP2, with torch.nn.utils: norm, rank 0 and 1", "no mistake there", listed(right))
