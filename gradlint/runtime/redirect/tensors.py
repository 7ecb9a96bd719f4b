"""Tensors and modules that are made on an absent device, or sent to it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function

from gradlint.runtime.redirect.landing import Landing, replace

_MAKERS = (
    "arange", "as_tensor", "asarray", "bartlett_window", "blackman_window", "empty", "empty_like", "empty_permuted",
    "empty_strided", "eye", "full", "full_like", "hamming_window", "hann_window", "kaiser_window", "linspace",
    "logspace", "ones", "ones_like", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm",
    "range", "scalar_tensor", "sparse_coo_tensor", "sparse_csr_tensor", "tensor", "tril_indices", "triu_indices",
    "zeros", "zeros_like",
)  # fmt: skip
_NEW = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros")
_TYPES = ("Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double", "BFloat16")

_operators: Any = importlib.import_module("torch.jit._builtins")

Function = Callable[..., Any]

_is_compiling: Callable[[], bool] = getattr(torch.compiler, "is_compiling", lambda: False)
#: how many modes are at work that are asked before any class is
_modes: Callable[[], int] = getattr(torch._C, "_len_torch_function_stack", lambda: 0)


def install(landing: Landing) -> None:
    _keep_default_devices_working(landing)
    for name in _MAKERS:
        _replace_maker(landing, name)
    for name in _NEW:
        replace(torch.Tensor, name, lambda original: _making(landing, original))
    for owner in (torch.Tensor, torch.nn.Module):
        replace(owner, "to", lambda original: _sending(landing, original))
    for name in ("cuda", "xpu"):
        replace(torch.Tensor, name, lambda original, kind=name: _named(landing, kind))  # type: ignore[misc]
    replace(torch.Tensor, "pin_memory", lambda original: lambda tensor, *args, **kwargs: tensor)
    replace(torch.Tensor, "record_stream", lambda original: lambda tensor, stream: None)
    replace(torch.Tensor, "type", lambda original: _typing(landing, original))
    replace(torch, "load", lambda original: _loading(landing, original))
    replace(torch, "set_default_tensor_type", lambda original: lambda kind: original(_plain_type(landing, kind)))
    for name in _TYPES:
        setattr(torch.cuda, f"{name}Tensor", getattr(torch, f"{name}Tensor"))
    _generators(landing)


def _keep_default_devices_working(landing: Landing) -> None:
    """`with torch.device("cuda")` and `set_default_device` hand a device to functions that they know by identity."""
    from torch.utils import _device as default

    default._device_constructors()  # remembered from now on: the functions as they are before we replace them
    replace(default.DeviceContext, "__init__", lambda original: lambda self, at: original(self, landing.land(at)))


def _replace_maker(landing: Landing, name: str) -> None:
    original: Any = getattr(torch, name, None)
    if original is None:
        return
    replace(torch, name, lambda original: _making(landing, original))
    ours: Any = getattr(torch, name)
    ours.__module__, ours.__qualname__ = "torch", name  # by which it can be pickled
    operator = _operators._find_builtin(original)
    if operator is not None:  # `torch.jit.script` knows its operators by identity
        _operators._register_builtin(ours, operator)


def _making(landing: Landing, original: Function) -> Function:
    def make(*args: Any, **kwargs: Any) -> Any:
        return _dispatched(make, original, args, landing.keywords(kwargs) if kwargs else kwargs)

    return make


def _dispatched(ours: Function, original: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the original. Classes of the user's that take over torch's functions know them as they are now: by ours."""
    if not _is_compiling() and has_torch_function((*args, *kwargs.values())) and not _modes():
        given = [value for value in (*args, *kwargs.values()) if _takes_over(type(value))]
        if given:
            return handle_torch_function(ours, given, *args, **kwargs)
    return original(*args, **kwargs)


def _takes_over(kind: type) -> bool:
    function = getattr(kind, "__torch_function__", torch.Tensor.__torch_function__)
    plain = (torch.Tensor.__torch_function__, torch._C._disabled_torch_function_impl)
    return function not in plain and not kind.__module__.startswith("torch.")


def _sending(landing: Landing, original: Function) -> Function:
    """`to(device)`, `to(device, dtype)`, `to(dtype)`, `to(other)`, `to(0)`."""

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            args = (landing.land(args[0]), *args[1:])
        return _dispatched(to, original, (self, *args), landing.keywords(kwargs))

    return to


def _named(landing: Landing, kind: str) -> Function:
    """`x.cuda()`."""

    def send(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        landing.told(kind)
        return tensor

    return send


def _typing(landing: Landing, original: Function) -> Function:
    def convert(tensor: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        return original(tensor, _plain_type(landing, dtype), *args, **kwargs)

    return convert


def _plain_type(landing: Landing, kind: Any) -> Any:
    """`torch.FloatTensor` for `torch.cuda.FloatTensor`."""
    if isinstance(kind, str) and kind.startswith("torch.cuda."):
        landing.told("cuda")
        return kind.replace("torch.cuda.", "torch.")
    return kind


def _loading(landing: Landing, original: Function) -> Function:
    """A checkpoint of a GPU, with and without a word about where to put it."""

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if map_location is None or isinstance(map_location, dict):
            map_location = "cpu"
        return original(f, landing.land(map_location), *args, **kwargs)

    return load


def _generators(landing: Landing) -> None:
    """`torch.Generator` is a class that cannot be derived from; it has to stay one for `isinstance`."""
    plain = torch.Generator

    class _Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, plain)

        def __call__(cls, device: Any = "cpu") -> torch.Generator:
            return plain(device=landing.land(device))

    setattr(torch, "Generator", _Kind("Generator", (), {}))  # noqa: B010 - a plain assignment is not typed
