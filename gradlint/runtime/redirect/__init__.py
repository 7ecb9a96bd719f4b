"""Scripts that were written for an accelerator run on the CPU where there is none: what they ask of it lands there.

`torch.cuda.is_available()` stays False, so that a script that knows both ways takes its own; unless the author wants
the script to be told of some GPUs, to see what it does then. Autocast regions for CUDA
stay as torch leaves them without it, switched off: their halved precision would only blur the numbers, and what a
run is to show is the order of calls. Two things differ from a GPU: `x.cuda()` is `x` itself, not a copy, and devices
still call themselves `cuda` where the script made them, while tensors are on `cpu`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from gradlint.runtime.redirect import accelerator
from gradlint.runtime.redirect.accelerator import Landing, Pretence, WhenImported, at_once


def needed(device: str) -> bool:
    """The run is to stay on the CPU, and nothing else would be there for the script anyway."""
    return device == "cpu" and not torch.cuda.is_available()


def install(
    note: Callable[[str], None], when_imported: WhenImported = at_once, pretence: Pretence | None = None
) -> None:
    """For the rest of this process; `note` is told what the script's author should know."""
    landing = Landing(note)
    accelerator.install_tensors(landing)
    accelerator.install(landing, pretence)
    accelerator.install_ranks(landing, when_imported)
