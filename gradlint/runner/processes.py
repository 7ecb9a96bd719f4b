"""Shares work out to processes; one that dies takes only one piece of the work with it.

Imported where there is enough to do: what this needs of the standard library takes longer to import than a small run.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, as_completed
from typing import TypeVar

from gradlint.python.roots import shared, stay_steady
from gradlint.registry import all_rules
from gradlint.runner.run import relax_collector

Item = TypeVar("Item")
Result = TypeVar("Result")

_NEEDED = ("findings", "python.anchor", "facts.tensors", "repair.trial", "repair.bench")


def share_out(
    work: Callable[[Item], Result], batches: Sequence[Sequence[Item]], jobs: int, failed: Callable[[Item, str], Result]
) -> Iterator[tuple[Item, Result]]:
    """Each item with what the work on it gave, in no particular order; `failed` says it of one that cannot be done."""
    pool = _pool(jobs)
    lost: list[Item] = []
    try:
        running: dict[Future[list[Result]], Sequence[Item]] = {}
        for batch in batches:
            try:
                running[pool.submit(_do, work, batch)] = batch
            except BrokenExecutor:
                lost.extend(batch)
        for future in as_completed(running):
            try:
                results = future.result()
            except Exception:  # a process died, or what it made cannot be sent
                lost.extend(running[future])
            else:
                yield from zip(running[future], results, strict=True)
    except BaseException:
        _stop(pool)  # nobody wants the rest any more
        raise
    pool.shutdown()
    yield from _one_by_one(work, lost, failed)


def _do(work: Callable[[Item], Result], batch: Sequence[Item]) -> list[Result]:
    return [work(item) for item in batch]


def _one_by_one(
    work: Callable[[Item], Result], lost: Sequence[Item], failed: Callable[[Item, str], Result]
) -> Iterator[tuple[Item, Result]]:
    """A process died and its neighbours' work with it: each item gets a process that no other can break."""
    pool: ProcessPoolExecutor | None = None
    for item in lost:
        pool = pool or _pool(1, fresh=True)
        try:
            result = pool.submit(work, item).result()
        except BrokenExecutor:
            pool.shutdown(wait=False)
            pool = None
            result = failed(item, "the process that linted this file died")
        except Exception as error:  # a result that cannot be sent back
            result = failed(item, f"{type(error).__name__}: {error}")
        yield item, result
    if pool is not None:
        pool.shutdown()


def _stop(pool: ProcessPoolExecutor) -> None:
    processes = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()


def _pool(jobs: int, *, fresh: bool = False) -> ProcessPoolExecutor:
    # Forking is fastest, and safe as long as no thread runs: true for the first pool, not for a second one.
    method = "fork" if sys.platform == "linux" and not fresh else "spawn"
    if method == "fork":
        _import_before_fork()
    return ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context(method), initializer=_begin, initargs=(shared() is not None,)
    )


def _import_before_fork() -> None:
    """Imports what the work needs, so that forked workers share it.

    With so many files one of them has a finding, as a rule: then each worker would need libcst.
    """
    for name in _NEEDED:
        importlib.import_module(f"gradlint.{name}")
    all_rules()


def _begin(unchanging: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers Ctrl-C for all
    threading.Thread(target=_end_with_parent, daemon=True).start()
    relax_collector()
    if unchanging:
        stay_steady()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
