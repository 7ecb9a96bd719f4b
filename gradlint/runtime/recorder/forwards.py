"""Watches models being called by the user's code, and loaders being read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import data
from torch.utils.data import dataloader

from gradlint.runtime.layers import asleep
from gradlint.runtime.recorder.backward import autocast
from gradlint.runtime.recording import Forwarded, LoaderTurned

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder


def install(recorder: Recorder) -> None:
    recorder.patches.watch(torch.nn.Module, "__call__", _call)
    recorder.patches.watch(data.DataLoader, "__iter__", _iterate)
    recorder.patches.watch(dataloader._BaseDataLoaderIter, "__next__", _next)


def _call(recorder: Recorder, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    module = args[0]
    with_graph = torch.is_grad_enabled()
    if not recorder.parts.survey.knows(module, with_graph):
        with recorder.guard("a forward"):
            recorder.parts.survey.called(module, (*args[1:], *kwargs.values()), with_graph)
    if not with_graph:  # evaluation
        return original(*args, **kwargs)
    distributed = recorder.parts.distributed
    if distributed.is_spread(module):  # also inside of another module
        with recorder.guard("a forward"):
            distributed.forward_begins(module)
    if recorder.inside("forward", "step", "backward"):
        return original(*args, **kwargs)
    with recorder.guard("a forward"):
        recorder.check_patience()
        _tell(recorder, module)
    with recorder.during("forward"):
        return original(*args, **kwargs)


def _tell(recorder: Recorder, module: Any) -> None:
    trained = next((p for p in module.parameters() if p.requires_grad), None)
    if trained is None:  # a loss function, or a frozen model
        return
    places = recorder.here()
    if not places:
        return
    recorder.parts.gradients.settle()
    recorder.parts.survey.forwarded(module)
    recorder.emit(
        Forwarded,
        places=places,
        model=recorder.models.get(module) or recorder.models.give(module),
        type=type(module).__name__,
        sync=recorder.parts.distributed.forward_sync(module),
        autocast=autocast(trained.device.type),
        asleep=asleep(module),
    )


def _iterate(recorder: Recorder, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    iterator = original(*args, **kwargs)
    with recorder.guard("a loader"):
        if data.get_worker_info() is None and recorder.here() and not recorder.iterators.get(args[0]):
            recorder.iterators.name(iterator, _begin(recorder, args[0]))
    return iterator


def _next(recorder: Recorder, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return original(*args, **kwargs)
    except StopIteration:
        with recorder.guard("a loader"):
            _over(recorder, recorder.iterators.get(args[0]))
        raise


def read_ahead(recorder: Recorder, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A loader that is one batch ahead of the user's loop: it is over when the loop is, not when it has read all."""
    loader = args[0]

    def batches() -> Iterator[Any]:
        name = ""
        with recorder.guard("a loader"):
            name = _begin(recorder, loader) if recorder.here() else ""
            # the loader that it reads from has nothing to add
            for inner in (loader, getattr(loader, "base_dataloader", loader)):
                recorder.iterators.name(inner, name)
        yield from original(*args, **kwargs)
        with recorder.guard("a loader"):
            _over(recorder, name)

    return batches()


def _begin(recorder: Recorder, loader: Any) -> str:
    recorder.check_patience()
    recorder.parts.gradients.settle()
    name = recorder.loaders.get(loader) or recorder.loaders.give(loader)
    recorder.lengths[name] = _length(loader)
    recorder.emit(LoaderTurned, loader=name, length=recorder.lengths[name])
    return name


def _over(recorder: Recorder, name: str) -> None:
    if name and recorder.here():
        recorder.parts.gradients.settle()
        recorder.emit(LoaderTurned, loader=name, over=True, length=recorder.lengths.get(name))


def _length(loader: Any) -> int | None:
    """How many batches; a loader of an iterable dataset remembers that it was asked, and is not."""
    if getattr(loader, "_dataset_kind", None) != dataloader._DatasetKind.Map:
        return None
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None
