"""What scripts ask of `torch.cuda` itself: most of it has nothing to do on the CPU."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
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
_COMPILER = ("torch._dynamo", "torch._inductor", "torch._functorch")


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


@dataclass(frozen=True, slots=True)
class Pretence:
    """GPUs that the script is told of. Only the script: torch and frameworks would go and look for them."""

    cards: int
    is_own_file: Callable[[str], bool]

    def install(self, landing: Landing) -> None:
        for name, answer in (("device_count", self.cards), ("is_available", True)):
            replace(torch.cuda, name, lambda original, answer=answer: self._telling(landing, original, answer))  # type: ignore[misc]

    def _telling(self, landing: Landing, original: Callable[..., Any], answer: Any) -> Callable[..., Any]:
        def ask() -> Any:
            if not self.is_own_file(sys._getframe(1).f_code.co_filename):
                return original()
            landing.note(f"the script was told of {self.cards} GPU{'' if self.cards == 1 else 's'}; there are none")
            return answer

        return ask


def install(landing: Landing, pretence: Pretence | None = None) -> None:
    cuda: Any = torch.cuda
    if pretence is not None and pretence.cards:
        pretence.install(landing)
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
        replace(cuda, name, lambda original, answer=answer: _answering(original, answer))  # type: ignore[misc]
    replace(cuda, "get_rng_state", lambda original: lambda *args, **kwargs: torch.get_rng_state())
    replace(cuda, "set_rng_state", lambda original: lambda *args, **kwargs: None)
    _streams(cuda)
    _hide_mps()


def _answering(original: Callable[..., Any], answer: Any) -> Callable[..., Any]:
    """torch's compiler takes any answer for a card that is there, and compiles for it: it is told the truth."""

    def ask(*args: Any, **kwargs: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))
        return original(*args, **kwargs) if caller.startswith(_COMPILER) else answer

    return ask


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
