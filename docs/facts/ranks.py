"""Two processes on this machine that train together (gloo, CPU); a job runs on both of them at once."""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist

RANKS = 2
#: seconds until a rank that waits for a lost one gives up; on a busy machine the other may only be slow
PATIENCE = 300

T = TypeVar("T")


def on_both_ranks(job: Callable[[], T]) -> list[T]:
    """What the job gives on each rank. It has to communicate: that keeps one process from taking both parts."""
    waiting = [_ranks().submit(_with_rank, job, torch.get_default_dtype()) for _ in range(RANKS)]
    by_rank = dict(future.result(timeout=PATIENCE + 10) for future in waiting)
    return [by_rank[rank] for rank in range(RANKS)]


def _with_rank(job: Callable[[], T], dtype: torch.dtype) -> tuple[int, T]:
    torch.set_default_dtype(dtype)
    return dist.get_rank(), job()


@functools.cache
def _ranks() -> ProcessPoolExecutor:
    """Started when first needed, for all experiments: importing torch takes longer than they do."""
    context = multiprocessing.get_context("spawn")
    # the ranks meet in a file, so no port has to be free
    folder = tempfile.TemporaryDirectory()
    meeting = Path(folder.name, "ranks").as_uri()
    counter = context.Value("i", 0)
    pool = ProcessPoolExecutor(RANKS, mp_context=context, initializer=_join, initargs=(meeting, counter))

    def leave() -> None:
        pool.shutdown()
        folder.cleanup()

    atexit.register(leave)
    return pool


def _join(meeting: str, counter: Synchronized[int]) -> None:
    with counter.get_lock():
        rank = counter.value
        counter.value += 1
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    limit = timedelta(seconds=PATIENCE)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=RANKS, timeout=limit)
