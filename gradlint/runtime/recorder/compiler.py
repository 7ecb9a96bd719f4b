"""Keeps torch.compile away from our own code: it would compile whatever runs while a compiled function does."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch


def _find(name: str) -> Any:
    try:
        return getattr(importlib.import_module("torch._C._dynamo.eval_frame"), name, None)
    except ImportError:
        return None


_set_callback = _find("set_eval_frame")

#: `torch.compile` takes this for a constant: of our functions it sees nothing but the call of the original
is_compiling: Callable[[], bool] = getattr(torch.compiler, "is_compiling", lambda: False)


def pause() -> Any:
    """No frame is compiled until `resume` is called with what this returns."""
    return _set_callback(None) if _set_callback is not None else None


def resume(callback: Any) -> None:
    if _set_callback is not None:
        _set_callback(callback)


def in_pieces(_: Any, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In place of `torch.compile`: what is never compiled may stand amid a function that was to be one whole graph."""
    return original(*args, **{**kwargs, "fullgraph": False})


def never_compile(function: Callable[..., Any]) -> None:
    """This function is run as it stands, always, also where a compiled one calls it; what it calls may be compiled."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    skip, strategy = _find("skip_code"), _find("_FrameExecStrategy")  # the first of older versions of torch
    if skip is not None:
        skip(function.__code__)
    elif strategy is not None:
        action = _find("_FrameAction")
        _find("set_code_exec_strategy")(function.__code__, strategy(action.SKIP, action.DEFAULT))
