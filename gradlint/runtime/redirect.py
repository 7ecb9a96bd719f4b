"""Scripts that were written for an accelerator run on the CPU where there is none: what they ask of it lands there.

`torch.cuda.is_available()` stays False, so that a script that knows both ways takes its own; unless the author wants
the script to be told of some GPUs, to see what it does then. Autocast regions for CUDA
stay as torch leaves them without it, switched off: their halved precision would only blur the numbers, and what a
run is to show is the order of calls. Two things differ from a GPU: `x.cuda()` is `x` itself, not a copy, and devices
still call themselves `cuda` where the script made them, while tensors are on `cpu`.
"""

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
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import handle_torch_function, has_torch_function
from torch.utils import _device as default_device

from gradlint.model import counted
from gradlint.runtime.recorder.patches import is_compiling

Function = Callable[..., Any]
Arguments = tuple[Any, ...]
Keywords = dict[str, Any]
Given = tuple[Arguments, Keywords]
#: called with a module's name, and what to do once the script has imported it
WhenImported = Callable[[str, Callable[[Any], None]], None]

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


def replace(owner: Any, name: str, instead: Function) -> None:
    """`instead` is called in the function's place, with that as its first argument. Other torches may lack it."""
    original = getattr(owner, name, None)
    if original is not None:

        @functools.wraps(original)
        def ours(*args: Any, **kwargs: Any) -> Any:
            return instead(original, *args, **kwargs)

        setattr(owner, name, ours)


def answer(value: Any) -> Function:
    """Gives this, whoever asks and for what."""
    return lambda original, *args, **kwargs: value


def needed(device: str) -> bool:
    """The run is to stay on the CPU, and nothing else would be there for the script anyway."""
    return device == "cpu" and not torch.cuda.is_available()


def at_once(name: str, patch: Callable[[Any], None]) -> None:
    """For who has no way of being told: only what is loaded already."""
    if name in sys.modules:
        patch(sys.modules[name])


def install(
    note: Callable[[str], None], when_imported: WhenImported = at_once, pretence: Pretence | None = None
) -> None:
    """For the rest of this process; `note` is told what the script's author should know."""
    landing = Landing(note)
    _install_tensors(landing)
    _install_cuda(landing, pretence)
    _hide_mps()
    if dist.is_available():
        _install_ranks(landing, when_imported)


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
        self.device = _CPU

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
        for name, told in (("device_count", self.cards), ("is_available", True)):
            replace(torch.cuda, name, functools.partial(self._tell, landing, told))

    def _tell(self, landing: Landing, told: Any, original: Function) -> Any:
        if not self.is_own_file(sys._getframe(2).f_code.co_filename):
            return original()
        landing.note(f"the script was told of {counted(self.cards, 'GPU')}; there are none")
        return told


def _install_cuda(landing: Landing, pretence: Pretence | None) -> None:
    cuda: Any = torch.cuda
    if pretence is not None and pretence.cards:
        pretence.install(landing)
    for name in _NOTHING_TO_DO:
        replace(cuda, name, lambda original, *args, **kwargs: landing.told("cuda"))
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
    for name, value in answers.items():
        replace(cuda, name, functools.partial(_unless_compiling, value))
    replace(cuda, "get_rng_state", lambda original, *args, **kwargs: torch.get_rng_state())
    replace(cuda, "set_rng_state", answer(None))
    cuda.Event, cuda.Stream = Event, Stream
    for name in ("current_stream", "default_stream"):
        replace(cuda, name, lambda original, *args, **kwargs: Stream())
    for name in ("stream", "device", "device_of"):
        setattr(cuda, name, lambda *args, **kwargs: contextlib.nullcontext())
    for name in ("mark", "range_push", "range_pop"):
        replace(cuda.nvtx, name, answer(0))


def _unless_compiling(value: Any, original: Function, *args: Any, **kwargs: Any) -> Any:
    """torch's compiler takes any answer for a card that is there, and compiles for it: it is told the truth."""
    caller = str(sys._getframe(2).f_globals.get("__name__", ""))
    return original(*args, **kwargs) if caller.startswith(_COMPILER) else value


def _hide_mps() -> None:
    """On a Mac as well, a run on the CPU is one."""
    accelerator, mps = getattr(torch, "accelerator", None), getattr(torch, "mps", None)
    for owner in (torch.backends.mps, mps, accelerator):
        replace(owner, "is_available", answer(False))
    replace(accelerator, "current_accelerator", answer(None))
    for name in ("synchronize", "empty_cache", "manual_seed"):
        replace(mps, name, answer(None))


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
#: how many modes are at work that are asked before any class is
_modes: Callable[[], int] = getattr(torch._C, "_len_torch_function_stack", lambda: 0)


def _install_tensors(landing: Landing) -> None:
    # `with torch.device("cuda")` and `set_default_device` hand a device to functions that they know by identity:
    # remembered from now on, as they are before we replace them
    default_device._device_constructors()
    replace(default_device.DeviceContext, "__init__", lambda original, self, at: original(self, landing.land(at)))
    for name in _MAKERS:
        _replace_maker(landing, name)
    for name in _NEW:
        _replace_dispatched(torch.Tensor, name, lambda args, kwargs: (args, landing.keywords(kwargs)))
    for owner in (torch.Tensor, torch.nn.Module):
        _replace_dispatched(owner, "to", functools.partial(_sent, landing))
    for name in ("cuda", "xpu"):
        replace(torch.Tensor, name, functools.partial(_named, landing, name))
    replace(torch.Tensor, "pin_memory", lambda original, tensor, *args, **kwargs: tensor)
    replace(torch.Tensor, "record_stream", answer(None))
    replace(torch.Tensor, "type", functools.partial(_type, landing))
    replace(torch, "load", functools.partial(_load, landing))
    replace(torch, "set_default_tensor_type", lambda original, kind: original(_plain_type(landing, kind)))
    for name in _TYPES:
        setattr(torch.cuda, f"{name}Tensor", getattr(torch, f"{name}Tensor"))
    _replace_generators(landing)


def _replace_maker(landing: Landing, name: str) -> None:
    original: Any = getattr(torch, name, None)
    if original is None:
        return
    _replace_dispatched(torch, name, lambda args, kwargs: (args, landing.keywords(kwargs)))
    ours: Any = getattr(torch, name)
    ours.__module__, ours.__qualname__ = "torch", name  # by which it can be pickled
    operator = _operators._find_builtin(original)
    if operator is not None:  # `torch.jit.script` knows its operators by identity
        _operators._register_builtin(ours, operator)


def _replace_dispatched(
    owner: Any, name: str, landed: Callable[[Arguments, Keywords], tuple[Arguments, Keywords]]
) -> None:
    """The same function with other arguments. Classes of the user's that take over torch's functions know them as they
    are now: by ours."""

    def instead(original: Function, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = landed(args, kwargs)
        if not is_compiling() and has_torch_function((*args, *kwargs.values())) and not _modes():
            given = [value for value in (*args, *kwargs.values()) if _takes_over(type(value))]
            if given:
                return handle_torch_function(ours, given, *args, **kwargs)
        return original(*args, **kwargs)

    replace(owner, name, instead)
    ours: Any = getattr(owner, name, None)


def _takes_over(kind: type) -> bool:
    function = getattr(kind, "__torch_function__", torch.Tensor.__torch_function__)
    plain = (torch.Tensor.__torch_function__, torch._C._disabled_torch_function_impl)
    return function not in plain and not kind.__module__.startswith("torch.")


def _sent(landing: Landing, args: Arguments, kwargs: Keywords) -> Given:
    """`to(device)`, `to(device, dtype)`, `to(dtype)`, `to(other)`, `to(0)`; the first is what is sent."""
    if len(args) > 1:
        args = (args[0], landing.land(args[1]), *args[2:])
    return args, landing.keywords(kwargs)


def _named(landing: Landing, kind: str, original: Function, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """`x.cuda()`."""
    landing.told(kind)
    return tensor


def _type(landing: Landing, original: Function, tensor: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    return original(tensor, _plain_type(landing, dtype), *args, **kwargs)


def _plain_type(landing: Landing, kind: Any) -> Any:
    """`torch.FloatTensor` for `torch.cuda.FloatTensor`."""
    if isinstance(kind, str) and kind.startswith("torch.cuda."):
        landing.told("cuda")
        return kind.replace("torch.cuda.", "torch.")
    return kind


def _load(landing: Landing, original: Function, f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
    """A checkpoint of a GPU, with and without a word about where to put it."""
    if map_location is None or isinstance(map_location, dict):
        map_location = "cpu"
    return original(f, landing.land(map_location), *args, **kwargs)


def _replace_generators(landing: Landing) -> None:
    """`torch.Generator` is a class that cannot be derived from; it has to stay one for `isinstance`."""
    plain = torch.Generator

    class _Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, plain)

        def __call__(cls, device: Any = "cpu") -> torch.Generator:
            return plain(device=landing.land(device))

    setattr(torch, "Generator", _Kind("Generator", (), {}))  # noqa: B010 - a plain assignment is not typed


# -- ranks -------------------------------------------------------------------------------------------------------------


_FSDP = "torch.distributed.fsdp.fully_sharded_data_parallel"


def _install_ranks(landing: Landing, when_imported: WhenImported) -> None:
    _everywhere("init_process_group", functools.partial(_init_process_group, landing))
    _everywhere("new_group", functools.partial(_new_group, landing))
    _everywhere("barrier", lambda original, *args, device_ids=None, **kwargs: original(*args, **kwargs))
    _everywhere("all_reduce", _all_reduce)
    replace(DistributedDataParallel, "__init__", functools.partial(_wrap, landing))
    when_imported(_FSDP, lambda module: replace(module.FullyShardedDataParallel, "__init__", _shard))
    for owner in (dist, sys.modules.get("torch.distributed.device_mesh")):
        replace(owner, "init_device_mesh", functools.partial(_mesh, landing))


def _everywhere(name: str, instead: Function) -> None:
    """Under both of its addresses."""
    original, core = getattr(dist, name), dist.distributed_c10d
    replace(dist, name, instead)
    if getattr(core, name, None) is original:
        setattr(core, name, getattr(dist, name))


def _gloo(landing: Landing, backend: Any) -> Any:
    """`nccl`, and `cpu:gloo,cuda:nccl`."""
    if isinstance(backend, str) and "nccl" in backend.lower():
        landing.note("gloo connects the ranks in place of nccl")
        return "gloo"
    return backend


def _init_process_group(landing: Landing, original: Function, backend: Any = None, *args: Any, **kwargs: Any) -> Any:
    kwargs.pop("device_id", None)
    return original(_gloo(landing, backend), *args, **kwargs)


def _new_group(
    landing: Landing, original: Function, ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any,
    **kwargs: Any,
) -> Any:  # fmt: skip
    if timeout is not None:
        kwargs["timeout"] = timeout
    kwargs.pop("device_id", None)
    return original(ranks, *args, backend=_gloo(landing, backend), **kwargs)


def _all_reduce(original: Function, tensor: Any, op: Any = None, group: Any = None, async_op: bool = False) -> Any:
    """gloo has no average."""
    if op != dist.ReduceOp.AVG or async_op:
        return original(tensor, op=dist.ReduceOp.SUM if op is None else op, group=group, async_op=async_op)
    original(tensor, op=dist.ReduceOp.SUM, group=group)
    tensor.div_(dist.get_world_size(group))
    return None


def _wrap(
    landing: Landing, original: Function, self: Any, module: Any, device_ids: Any = None, output_device: Any = None,
    *args: Any, **kwargs: Any,
) -> None:  # fmt: skip
    if device_ids or output_device is not None:
        landing.told("cuda")
    original(self, module, None, None, *args, **kwargs)


def _shard(original: Function, self: Any, *args: Any, **kwargs: Any) -> None:
    """Without a device FSDP looks for an accelerator, and raises where there is none."""
    original(self, *args, **{**kwargs, "device_id": _CPU})


def _mesh(landing: Landing, original: Function, device_type: Any, *args: Any, **kwargs: Any) -> Any:
    return original(str(landing.land(device_type)), *args, **kwargs)
