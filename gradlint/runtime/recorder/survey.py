"""Watches models being called and loaders being read; keeps what only a whole run shows: who ran, who got gradients."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils import data
from torch.utils.data import dataloader

from gradlint.runtime import norms
from gradlint.runtime.layers import Graphs, Units, asleep, biases, readable
from gradlint.runtime.recorder.backward import autocast
from gradlint.runtime.recorder.distributed import wrap_of
from gradlint.runtime.recorder.lives import Life, grad_of
from gradlint.runtime.recorder.patches import Request
from gradlint.runtime.recording import Forwarded, LoaderTurned, Parameter, Place, Surveyed

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder


@dataclass(slots=True)
class _Ran:
    """How a layer with parameters of its own was called."""

    layer: weakref.ref[Any]
    places: tuple[Place, ...]
    with_graph: bool
    #: nothing that it was given needs a gradient: it stands where the data comes in
    first: bool


class Survey:
    """One for each recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._ran: dict[int, _Ran] = {}
        self._models: dict[int, weakref.ref[Any]] = {}
        self._fed: dict[int, weakref.ref[Tensor]] = {}
        #: parameters that have a gradient and no optimizer, with their norm when that was first seen
        self._loose: dict[int, tuple[weakref.ref[Tensor], float]] = {}
        self._graphs = Graphs()
        self._backwards = 0
        #: by optimizer
        self._units: dict[str, Units] = {}

    # -- seen --------------------------------------------------------------------------------------------------

    def knows(self, layer: Any, with_graph: bool) -> bool:
        """Nothing new is to be learned from this call: asked at each one, so it costs next to nothing."""
        if not layer._parameters:
            return True
        known = self._ran.get(id(layer))
        return known is not None and (known.with_graph or not with_graph) and known.layer() is layer

    def called(self, layer: Any, inputs: Iterable[Any], with_graph: bool) -> None:
        """A module is called, inside of another or not."""
        if not self._recorder.inside("step", "backward"):
            first = not any(isinstance(x, Tensor) and x.requires_grad for x in _flat(inputs))
            self._ran[id(layer)] = _Ran(weakref.ref(layer), self._recorder.here(), with_graph, first)

    def forwarded(self, model: Any) -> None:
        """A model is called by the user's code."""
        self._models.setdefault(id(model), weakref.ref(model))

    def stepped(self, life: Life) -> None:
        for parameter in life.parameters():
            if grad_of(parameter) is not None:
                self._fed.setdefault(id(parameter), weakref.ref(parameter))
        self._units.setdefault(life.id, Units()).look(list(self._biases(life)))
        for parameter in (p for model in self._living() for p in model.parameters()):
            free = parameter.requires_grad and not self._recorder.lives.owners(parameter)
            if free and grad_of(parameter) is not None and id(parameter) not in self._loose:
                self._loose[id(parameter)] = weakref.ref(parameter), norms.total([parameter])

    def graph_of(self, losses: list[Tensor]) -> int:
        """Marks the graph of a backward; gives how many earlier ones are still alive."""
        alive = self._graphs.alive(self._backwards)
        self._backwards += 1
        if losses:
            self._graphs.follow(losses[0], self._backwards)
        return alive

    # -- told --------------------------------------------------------------------------------------------------

    def tell(self) -> None:
        """At the end: the parameters with which something may be wrong."""
        rows, units = tuple(self._rows()), tuple(self._dying())
        if rows or units:
            self._recorder.emit(Surveyed, places=(), rows=rows, units=units)

    def _rows(self) -> Iterator[Parameter]:
        names = {id(parameter): (name, layer) for name, layer, parameter in self._named()}
        for life in self._recorder.lives.alive():
            for position, parameter in enumerate(life.parameters() if life.steps else ()):
                known = self._fed.get(id(parameter))
                if known is not None and known() is parameter:
                    continue
                name, layer = names.get(id(parameter), (f"parameter {position}", None))
                yield self._row(parameter, name, layer, life.id, fed=False)
        for reference, norm in self._loose.values():
            loose = reference()
            if loose is not None and id(loose) in names and norms.total([loose]) == norm:
                name, layer = names[id(loose)]
                yield self._row(loose, name, layer, "", fed=True)

    def _biases(self, life: Life) -> Iterator[tuple[str, Tensor]]:
        mine = {id(parameter) for parameter in life.parameters()}
        for model in self._living():
            for name, _, bias in biases(model):
                gradient = grad_of(bias) if id(bias) in mine else None
                if gradient is not None and type(gradient) is Tensor:
                    yield f"{name}.bias" if name else "bias", gradient

    def _dying(self) -> Iterator[Parameter]:
        """Of layers inside: an output that nobody asked for has no gradient, and lives."""
        named = {name: (layer, parameter) for name, layer, parameter in self._named()}
        order = [ran.layer() for ran in self._ran.values()]
        last = {id(layer): layer for model in self._living() for layer in [_last(model, order)]}
        for optimizer, units in self._units.items():
            shares = units.shares()
            if all(share == 1 for share in shares.values()):
                continue  # the loss is a constant: that is not about layers
            for name, share in shares.items():
                layer, parameter = named.get(_short(name), (None, None))
                if share and layer is not None and parameter is not None and id(layer) not in last:
                    row = self._row(parameter, _short(name), layer, optimizer, fed=True)
                    yield replace(row, dead=share, steps=units.looks)

    def _row(self, parameter: Tensor, name: str, layer: Any, optimizer: str, *, fed: bool) -> Parameter:
        ran = self._ran.get(id(layer)) if layer is not None else None
        return Parameter(
            name,
            type(layer).__name__ if layer is not None else "",
            optimizer,
            trainable=parameter.requires_grad,
            fed=fed,
            ran="" if ran is None else "with a graph" if ran.with_graph else "without a graph",
            first=ran is not None and ran.first,
            awake=layer is None or bool(layer.training),
            places=ran.places if ran is not None else (),
            related=layer is not None and self._is_partly_trained(parameter),
        )

    def _is_partly_trained(self, parameter: Tensor) -> bool:
        """Its model has parameters that an optimizer moves."""
        for model in self._living():
            mine = list(model.parameters())
            if any(p is parameter for p in mine):
                return any(id(p) in self._fed for p in mine)
        return False

    def _living(self) -> list[Any]:
        return [model for reference in self._models.values() if (model := reference()) is not None]

    def _named(self) -> Iterator[tuple[str, Any, Tensor]]:
        for model in self._living():
            for prefix, layer in model.named_modules():
                for name, parameter in layer.named_parameters(recurse=False):
                    yield _short(f"{prefix}.{name}" if prefix else name), layer, parameter


def _short(name: str) -> str:
    return readable(name).removeprefix("module.")


def _last(model: Any, order: list[Any]) -> Any:
    """The layer that a model calls last."""
    inside = {id(layer) for layer in model.modules()}
    return next((layer for layer in reversed(order) if id(layer) in inside), None)


def _flat(inputs: Iterable[Any]) -> Iterator[Any]:
    for given in inputs:
        if isinstance(given, list | tuple):
            yield from _flat(given)
        elif isinstance(given, dict):
            yield from _flat(given.values())
        else:
            yield given


# -- models and loaders ------------------------------------------------------------------------------------------------


def install(recorder: Recorder) -> None:
    recorder.patches.watch(torch.nn.Module, "__call__", _call)
    recorder.patches.watch(data.DataLoader, "__iter__", _iterate)
    recorder.patches.watch(dataloader._BaseDataLoaderIter, "__next__", _next)


def _call(request: Request) -> Any:
    recorder, module = request.recorder, request.owner
    with_graph = torch.is_grad_enabled()
    if not recorder.survey.knows(module, with_graph):
        with recorder.guard("a forward"):
            recorder.survey.called(module, (*request.args[1:], *request.kwargs.values()), with_graph)
    if not with_graph:  # evaluation
        return request.carry_out()
    if wrap_of(module):  # also inside of another module
        with recorder.guard("a forward"):
            recorder.distributed.forward_begins(module)
    if recorder.inside("forward", "step", "backward"):
        return request.carry_out()
    with recorder.guard("a forward"):
        recorder.check_patience()
        _tell(recorder, module)
    with recorder.during("forward"):
        return request.carry_out()


def _tell(recorder: Recorder, module: Any) -> None:
    trained = next((p for p in module.parameters() if p.requires_grad), None)
    if trained is None:  # a loss function, or a frozen model
        return
    places = recorder.here()
    if not places:
        return
    recorder.gradients.settle()
    recorder.survey.forwarded(module)
    recorder.emit(
        Forwarded,
        places=places,
        model=recorder.models.get(module) or recorder.models.give(module),
        type=type(module).__name__,
        sync=recorder.distributed.forward_sync(module),
        autocast=autocast(trained.device.type),
        asleep=asleep(module),
    )


def _iterate(request: Request) -> Any:
    iterator, recorder, loader = request.carry_out(), request.recorder, request.owner
    with recorder.guard("a loader"):
        if data.get_worker_info() is None and recorder.here() and not recorder.iterators.get(loader):
            recorder.iterators.name(iterator, _begin(recorder, loader))
    return iterator


def _next(request: Request) -> Any:
    try:
        return request.carry_out()
    except StopIteration:
        recorder = request.recorder
        with recorder.guard("a loader"):
            _over(recorder, recorder.iterators.get(request.owner))
        raise


def read_ahead(request: Request) -> Any:
    """A loader that is one batch ahead of the user's loop: it is over when the loop is, not when it has read all."""
    recorder, loader = request.recorder, request.owner

    def batches() -> Iterator[Any]:
        name = ""
        with recorder.guard("a loader"):
            name = _begin(recorder, loader) if recorder.here() else ""
            # the loader that it reads from has nothing to add
            for inner in (loader, getattr(loader, "base_dataloader", loader)):
                recorder.iterators.name(inner, name)
        yield from request.carry_out()
        with recorder.guard("a loader"):
            _over(recorder, name)

    return batches()


def _begin(recorder: Recorder, loader: Any) -> str:
    recorder.check_patience()
    recorder.gradients.settle()
    name = recorder.loaders.get(loader) or recorder.loaders.give(loader)
    recorder.emit(LoaderTurned, loader=name)
    return name


def _over(recorder: Recorder, name: str) -> None:
    if name and recorder.here():
        recorder.gradients.settle()
        recorder.emit(LoaderTurned, loader=name, over=True)
