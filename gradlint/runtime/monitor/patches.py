"""Lets monitors know of clips and of scaler.step, for as long as one of them is listening.

The functions are replaced wherever a loaded module holds them, so that `from torch.nn.utils import clip_grad_norm_` is
seen too; when the last monitor leaves, every module gets its own function back, also those that were loaded meanwhile.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad as torch_clips

from gradlint.runtime.recorder.patches import is_compiling, rebind

if TYPE_CHECKING:
    from gradlint.runtime.monitor.watcher import Watcher


Function = Callable[..., Any]


class Patches:
    """The replaced functions, and who listens; no listener raises."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._listeners: tuple[Watcher, ...] = ()
        self._functions: list[tuple[Function, Function]] = []
        self._methods: list[tuple[type, str, Function, Function]] = []

    def add(self, listener: Watcher) -> None:
        with self._lock:
            if not self._listeners:
                self._install()
            self._listeners = (*self._listeners, listener)

    def remove(self, listener: Watcher) -> None:
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other is not listener)
            if not self._listeners:
                self._uninstall()

    @property
    def installed(self) -> bool:
        return bool(self._functions)

    def _install(self) -> None:
        self._functions = [(original, self._clip(original, name)) for original, name in _clip_functions()]
        rebind(self._functions)
        for owner, name, wrap in self._wanted_methods():
            original = vars(owner)[name]
            self._methods.append((owner, name, original, wrap(original)))
            setattr(owner, name, self._methods[-1][-1])

    def _uninstall(self) -> None:
        rebind([(wrapper, original) for original, wrapper in self._functions])
        for owner, name, original, wrapper in reversed(self._methods):
            if vars(owner).get(name) is wrapper:  # else somebody wrapped ours; it does nothing without listeners
                setattr(owner, name, original)
        self._functions, self._methods = [], []

    def _wanted_methods(self) -> Iterable[tuple[type, str, Callable[[Function], Function]]]:
        scaler: type = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
        yield scaler, "step", self._scaler_step
        fsdp = sys.modules.get("torch.distributed.fsdp.fully_sharded_data_parallel")
        if fsdp is not None and "clip_grad_norm_" in vars(fsdp.FullyShardedDataParallel):
            yield fsdp.FullyShardedDataParallel, "clip_grad_norm_", self._fsdp_clip

    def _clip(self, original: Function, name: str) -> Function:
        limit_name = "clip_value" if name == "clip_grad_value_" else "max_norm"

        @functools.wraps(original)
        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            listeners = self._listeners
            if not listeners or is_compiling():  # in which Python's side effects have no place
                return original(parameters, *args, **kwargs)
            handed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
            # An exhausted generator goes on as it is: torch warns of it.
            parameters = handed if handed and not isinstance(parameters, Tensor) else parameters
            limit = kwargs[limit_name] if limit_name in kwargs else args[0] if args else None
            norm = kwargs.get("total_norm", args[1] if len(args) > 1 else None) if name == _WITH_NORM else None
            for listener in listeners:
                listener.before_clip(_spoken(name), handed, limit, norm)
            result = original(parameters, *args, **kwargs)
            if name == "clip_grad_norm_":
                for listener in listeners:
                    listener.clip_returned(_spoken(name), handed, result)
            return result

        return clip

    def _fsdp_clip(self, original: Function) -> Function:
        @functools.wraps(original)
        def clip_grad_norm_(model: Any, max_norm: Any, *args: Any, **kwargs: Any) -> Any:
            listeners, parameters = self._listeners, list(model.parameters())
            for listener in listeners:
                listener.before_clip("model.clip_grad_norm_", parameters, max_norm, None)
            result = original(model, max_norm, *args, **kwargs)
            for listener in listeners:
                listener.clip_returned("model.clip_grad_norm_", parameters, result)
            return result

        return clip_grad_norm_

    def _scaler_step(self, original: Function) -> Function:
        @functools.wraps(original)
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            with contextlib.ExitStack() as stack:
                for listener in self._listeners:
                    stack.enter_context(listener.scaler_steps(scaler, optimizer))
                return original(scaler, optimizer, *args, **kwargs)

        return step


#: torch 2.6 and later clip through this function, whoever holds clip_grad_norm_
_WITH_NORM = "_clip_grads_with_norm_"


def _clip_functions() -> list[tuple[Function, str]]:
    names = (_WITH_NORM if hasattr(torch_clips, _WITH_NORM) else "clip_grad_norm_", "clip_grad_value_")
    return [(getattr(torch_clips, name), name) for name in names]


def _spoken(name: str) -> str:
    return "clip_grad_norm_" if name == _WITH_NORM else name


PATCHES = Patches()
