"""What scripts ask of a device that is not there, of tensors and modules on it, and of NCCL: it lands on the CPU."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.overrides import handle_torch_function, has_torch_function

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


# -- torch.cuda --------------------------------------------------------------------------------------------------------


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


# -- tensors and modules -----------------------------------------------------------------------------------------------


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
# -- ranks -------------------------------------------------------------------------------------------------------------


Function = Callable[..., Any]
_is_compiling: Callable[[], bool] = getattr(torch.compiler, "is_compiling", lambda: False)
#: how many modes are at work that are asked before any class is
_modes: Callable[[], int] = getattr(torch._C, "_len_torch_function_stack", lambda: 0)


def install_tensors(landing: Landing) -> None:
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


#: called with a module's name, and what to do once the script has imported it
WhenImported = Callable[[str, Callable[[Any], None]], None]
_FSDP = "torch.distributed.fsdp.fully_sharded_data_parallel"


def at_once(name: str, patch: Callable[[Any], None]) -> None:
    """For who has no way of being told: only what is loaded already."""
    if name in sys.modules:
        patch(sys.modules[name])


def install_ranks(landing: Landing, when_imported: WhenImported) -> None:
    if not dist.is_available():
        return
    from torch.nn.parallel import DistributedDataParallel

    _everywhere("init_process_group", lambda original: _beginning(landing, original))
    _everywhere("new_group", lambda original: _grouping(landing, original))
    _everywhere("barrier", _waiting)
    _everywhere("all_reduce", _reducing)
    replace(DistributedDataParallel, "__init__", lambda original: _wrapping(landing, original))
    when_imported(_FSDP, lambda module: replace(module.FullyShardedDataParallel, "__init__", _sharding))
    mesh = sys.modules.get("torch.distributed.device_mesh")
    for owner in (dist, mesh):
        replace(owner, "init_device_mesh", lambda original: _meshing(landing, original))


def _everywhere(name: str, make: Callable[[Function], Function]) -> None:
    """Under both of its addresses."""
    original = getattr(dist, name)
    replace(dist, name, make)
    core = dist.distributed_c10d
    if getattr(core, name, None) is original:
        setattr(core, name, getattr(dist, name))


def _gloo(landing: Landing, backend: Any) -> Any:
    """`nccl`, and `cpu:gloo,cuda:nccl`."""
    if isinstance(backend, str) and "nccl" in backend.lower():
        landing.note("gloo connects the ranks in place of nccl")
        return "gloo"
    return backend


def _beginning(landing: Landing, original: Function) -> Function:
    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_id", None)
        return original(_gloo(landing, backend), *args, **kwargs)

    return init_process_group


def _grouping(landing: Landing, original: Function) -> Function:
    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        if timeout is not None:
            kwargs["timeout"] = timeout
        kwargs.pop("device_id", None)
        return original(ranks, *args, backend=_gloo(landing, backend), **kwargs)

    return new_group


def _waiting(original: Function) -> Function:
    def barrier(*args: Any, device_ids: Any = None, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    return barrier


def _reducing(original: Function) -> Function:
    """gloo has no average."""

    def all_reduce(tensor: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
        if op != dist.ReduceOp.AVG or async_op:
            return original(tensor, op=op, group=group, async_op=async_op)
        original(tensor, op=dist.ReduceOp.SUM, group=group)
        tensor.div_(dist.get_world_size(group))
        return None

    return all_reduce


def _wrapping(landing: Landing, original: Function) -> Function:
    def __init__(  # noqa: N807
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        if device_ids or output_device is not None:
            landing.told("cuda")
        original(self, module, None, None, *args, **kwargs)

    return __init__


def _sharding(original: Function) -> Function:
    """Without a device FSDP looks for an accelerator, and raises where there is none."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        kwargs["device_id"] = torch.device("cpu")
        original(self, *args, **kwargs)

    return __init__


def _meshing(landing: Landing, original: Function) -> Function:
    return lambda device_type, *args, **kwargs: original(str(landing.land(device_type)), *args, **kwargs)
