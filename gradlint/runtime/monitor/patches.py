"""Lets monitors know of clips and of scaler.step, for as long as one of them is listening.

The functions are replaced wherever a loaded module holds them, so that `from torch.nn.utils import clip_grad_norm_` is
seen too; when the last monitor leaves, every module gets its own function back, also those that were loaded meanwhile.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad as torch_clips

from gradlint.runtime.recorder.patches import Patches, is_compiling

if TYPE_CHECKING:
    from gradlint.runtime.monitor.watcher import Watcher


Function = Callable[..., Any]


class Listeners:
    """Who listens, and the functions that are replaced for them; no listener raises."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._listeners: tuple[Watcher, ...] = ()
        self._patches = Patches()

    def add(self, listener: Watcher) -> None:
        with self._lock:
            if not self._listeners:
                self._install()
            self._listeners = (*self._listeners, listener)

    def remove(self, listener: Watcher) -> None:
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other is not listener)
            if not self._listeners:
                self._patches.undo()

    def _install(self) -> None:
        # torch 2.6 and later clip through this function, whoever holds clip_grad_norm_
        inner = getattr(torch_clips, "_clip_grads_with_norm_", None)
        norm = inner or torch_clips.clip_grad_norm_
        value = torch_clips.clip_grad_value_
        self._patches.put_everywhere(norm, self._clip(norm, "clip_grad_norm_", "max_norm", given=inner is not None))
        self._patches.put_everywhere(value, self._clip(value, "clip_grad_value_", "clip_value"))
        self._patches.bind()
        scaler: type = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
        self._patches.put(scaler, "step", self._scaler_step(vars(scaler)["step"]))
        module = sys.modules.get("torch.distributed.fsdp.fully_sharded_data_parallel")
        sharded = getattr(module, "FullyShardedDataParallel", None)
        if own := vars(sharded).get("clip_grad_norm_") if sharded is not None else None:
            self._patches.put(sharded, "clip_grad_norm_", self._clip(own, "model.clip_grad_norm_", "max_norm"))

    def _clip(self, original: Function, spoken: str, limit: str, *, given: bool = False) -> Function:
        """`given`: it is handed the norm; others may return it."""

        @functools.wraps(original)
        def clip(whose: Any, *args: Any, **kwargs: Any) -> Any:
            listeners = self._listeners
            if not listeners or is_compiling():  # in which Python's side effects have no place
                return original(whose, *args, **kwargs)
            if isinstance(whose, Tensor | torch.nn.Module):
                handed: list[Tensor] = [whose] if isinstance(whose, Tensor) else list(whose.parameters())
            else:
                handed = list(whose)
                whose = handed or whose  # an exhausted generator goes on as it is: torch warns of it
            norm = kwargs.get("total_norm", args[1] if len(args) > 1 else None) if given else None
            for listener in listeners:
                listener.before_clip(spoken, handed, kwargs.get(limit, args[0] if args else None), norm)
            result = original(whose, *args, **kwargs)
            if isinstance(result, Tensor) and not given:
                for listener in listeners:
                    listener.clip_returned(spoken, handed, result)
            return result

        return clip

    def _scaler_step(self, original: Function) -> Function:
        @functools.wraps(original)
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            with contextlib.ExitStack() as stack:
                for listener in self._listeners:
                    stack.enter_context(listener.scaler_steps(scaler, optimizer))
                return original(scaler, optimizer, *args, **kwargs)

        return step


LISTENERS = Listeners()
