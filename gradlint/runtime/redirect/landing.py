"""Which devices are not there, and where what is meant for them goes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

#: devices that scripts are written for
ABSENT = ("cuda", "mps", "xpu")
_CPU = torch.device("cpu")


class Landing:
    """Sends what asks for an absent device to the CPU, and says so once."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note

    def land(self, device: Any) -> Any:
        """The CPU in place of an absent device; anything else as it is. A number is one of the GPUs."""
        kind = ""
        if isinstance(device, torch.device):
            kind = device.type
        elif isinstance(device, str):
            kind = device.partition(":")[0]
        elif isinstance(device, int) and not isinstance(device, bool):
            kind = "cuda"
        if kind not in ABSENT:
            return device
        self.told(kind)
        return _CPU

    def told(self, kind: str) -> None:
        self.note(f"the script asks for a {kind} device; this run has none, and put it on the CPU")

    def keywords(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Those of a function that makes tensors."""
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": self.land(kwargs["device"])}
        if kwargs.get("pin_memory"):
            self.told("cuda")
            kwargs = {**kwargs, "pin_memory": False}
        return kwargs


def replace(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """`make` is handed the function and returns what is called in its place. Other versions of torch may lack it."""
    original = getattr(owner, name, None)
    if original is not None:
        setattr(owner, name, functools.wraps(original)(make(original)))
