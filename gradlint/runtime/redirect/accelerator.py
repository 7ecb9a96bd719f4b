"""What scripts ask of `torch.cuda` itself: most of it has nothing to do on the CPU."""

from __future__ import annotations

import contextlib
import time
from types import SimpleNamespace
from typing import Any

import torch

from gradlint.runtime.redirect.landing import Landing, replace

_NOTHING_TO_DO = (
    "init", "ipc_collect", "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
    "reset_peak_memory_stats", "set_device", "set_per_process_memory_fraction", "synchronize",
)  # fmt: skip
#: a card that can do what scripts ask about; nothing depends on it here
_MEMORY = 16 * 2**30
_CAPABILITY = (8, 0)
_NAME = "CPU in place of CUDA"


class Event:
    """Takes the time where CUDA would."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._time = 0.0

    def record(self, stream: Any = None) -> None:
        self._time = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        return (end._time - self._time) * 1000

    def query(self) -> bool:
        return True

    def wait(self, stream: Any = None) -> None:
        """All that was before has happened."""

    def synchronize(self) -> None:
        """All that was before has happened."""


class Stream:
    """Work that is done as soon as it is asked for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = torch.device("cpu")

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        """There is only one order."""

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record()
        return event

    def query(self) -> bool:
        return True

    def wait_stream(self, stream: Any) -> None:
        """All that was before has happened."""

    def wait_event(self, event: Any) -> None:
        """All that was before has happened."""

    def synchronize(self) -> None:
        """All that was before has happened."""


def install(landing: Landing) -> None:
    cuda: Any = torch.cuda
    for name in _NOTHING_TO_DO:
        replace(cuda, name, lambda original: lambda *args, **kwargs: landing.told("cuda"))
    answers: dict[str, Any] = {
        "current_device": 0,
        "get_device_name": _NAME,
        "get_device_capability": _CAPABILITY,
        "get_device_properties": SimpleNamespace(
            name=_NAME,
            total_memory=_MEMORY,
            major=_CAPABILITY[0],
            minor=_CAPABILITY[1],
            multi_processor_count=1,
        ),
        "mem_get_info": (_MEMORY, _MEMORY),
        "memory_summary": "",
    }
    for name, answer in answers.items():
        replace(cuda, name, lambda original, answer=answer: lambda *args, **kwargs: answer)  # type: ignore[misc]
    replace(cuda, "get_rng_state", lambda original: lambda *args, **kwargs: torch.get_rng_state())
    replace(cuda, "set_rng_state", lambda original: lambda *args, **kwargs: None)
    _streams(cuda)
    _hide_mps()


def _streams(cuda: Any) -> None:
    cuda.Event, cuda.Stream = Event, Stream
    for name in ("current_stream", "default_stream"):
        replace(cuda, name, lambda original: lambda *args, **kwargs: Stream())
    for name in ("stream", "device", "device_of"):
        setattr(cuda, name, lambda *args, **kwargs: contextlib.nullcontext())
    for name in ("mark", "range_push", "range_pop"):
        replace(cuda.nvtx, name, lambda original: lambda *args, **kwargs: 0)


def _hide_mps() -> None:
    """On a Mac as well, a run on the CPU is one."""
    places: list[tuple[Any, str, Any]] = [
        (torch.backends.mps, "is_available", False),
        (getattr(torch, "mps", None), "is_available", False),
        (getattr(torch, "accelerator", None), "is_available", False),
        (getattr(torch, "accelerator", None), "current_accelerator", None),
    ]
    for name in ("synchronize", "empty_cache", "manual_seed"):
        places.append((getattr(torch, "mps", None), name, None))
    for owner, name, answer in places:
        replace(owner, name, lambda original, answer=answer: lambda *args, **kwargs: answer)  # type: ignore[misc]
