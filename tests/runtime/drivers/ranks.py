"""Which texts need a process group, and the group of the workers that run them: gloo, connected through a file."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: seconds that a rank waits for another; they do the same, so a long wait is a failure
PATIENCE = 600

_DISTRIBUTED = re.compile(r"\bDistributedDataParallel\b|\bFullyShardedDataParallel\b|\btorch\.distributed\b")


def needed(text: str) -> bool:
    return _DISTRIBUTED.search(text) is not None


def _keep_shards_here() -> None:
    """FSDP looks for an accelerator unless it is told a device. Broken loops name it in full, and do not import it."""
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel

    plain = FullyShardedDataParallel.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        plain(self, *args, **{**kwargs, "device_id": torch.device("cpu")})

    setattr(FullyShardedDataParallel, "__init__", __init__)  # noqa: B010 - a plain assignment is not typed


@contextlib.contextmanager
def together(meeting: Path) -> Iterator[None]:
    """One group for all jobs of a worker: making and ending one for each job is slow, and now and then fails."""
    import torch.distributed as dist

    _keep_shards_here()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    patience = datetime.timedelta(seconds=PATIENCE)
    dist.init_process_group("gloo", init_method=meeting.as_uri(), rank=rank, world_size=world, timeout=patience)
    try:
        yield
    finally:
        dist.destroy_process_group()
