"""Watches the functions that clip gradients."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradlint.runtime import norms
from gradlint.runtime.recorder.lives import Life, grad_of
from gradlint.runtime.recorder.patches import Handler, Request
from gradlint.runtime.recording import Clipped, Gradient, Place

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder

#: iterators that somebody used up, at most so many are remembered
REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the functions."""

    function: str
    how: str = "norm"
    #: the positions and names of the limit and, where the caller hands it in, of the norm
    limit: tuple[int, str] = (1, "max_norm")
    norm: tuple[int, str] | None = None
    wrap: str = ""
    manager: str = ""
    unscales: bool = False


_FUNCTIONS = (
    Kind("clip_grad_norm_"),
    Kind("clip_grad_norm"),
    Kind("clip_grad_value_", "value", (1, "clip_value")),
    Kind("clip_grads_with_norm_", norm=(2, "total_norm")),
)


@dataclass(slots=True)
class _UsedUp:
    """An iterator, the line that took everything out of it, and the optimizer that did so."""

    iterator: Any
    place: Place | None
    optimizer: Life | None = None


class Clips:
    """The watch on them, and on the iterators they are handed."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._used: dict[int, _UsedUp] = {}

    def install(self) -> None:
        module = torch.nn.utils.clip_grad
        for kind in _FUNCTIONS:
            private = f"_{kind.function}"
            name = private if hasattr(module, private) else kind.function
            self.recorder.patches.watch_everywhere(module, name, watching(kind), compiled=False)

    def used_up(self, source: Any, optimizer: Life | None = None) -> None:
        """Somebody took everything out of an iterator; of an iterable that can be read again nothing is kept."""
        if isinstance(source, Iterator) and id(source) not in self._used:
            places = self.recorder.here()
            self._used[id(source)] = _UsedUp(source, places[0] if places else None, optimizer)
            while len(self._used) > REMEMBERED:
                del self._used[next(iter(self._used))]

    def who_used(self, source: Any) -> _UsedUp | None:
        known = self._used.get(id(source))
        return known if known is not None and known.iterator is source else None


@dataclass(slots=True)
class _Running:
    """A clip that is going on."""

    parameters: list[Tensor]
    touched: list[Life]
    before: tuple[Gradient, ...]
    #: copies of the gradients that there were, if the clip can change their direction
    copies: list[Tensor]
    #: what is known of the happening before it happens
    fields: dict[str, Any]


def watching(kind: Kind, position: int = 0) -> Handler:
    """Of a clip that gets its parameters as an argument, at this position."""

    def handler(request: Request) -> Any:
        if request.recorder.inside("clip"):
            return request.carry_out()
        given = request.argument(position, "parameters")
        source, parameters = _taken(given)
        if source is not given:
            request.put(position, "parameters", source)
        return watch(request, kind, given, parameters)

    return handler


def watch(request: Request, kind: Kind, given: Any, parameters: list[Tensor]) -> Any:
    """Carries it out, and tells what it did to these parameters."""
    recorder = request.recorder
    recorder.catch_up()
    running: _Running | None = None
    with recorder.guard("a clip"):
        running = _prepare(recorder, kind, given, parameters)
    with recorder.during("clip", manager=kind.manager):
        result = request.carry_out()
    if running is not None:
        with recorder.guard("a clip"):
            _tell(request, kind, running, result)
    return result


def _taken(given: Any) -> tuple[Any, list[Tensor]]:
    """All parameters out of what was handed to a clip, and the same thing again for torch to read.

    torch looks whether it got a generator (and warns if that is empty), so a generator stays one.
    """
    if isinstance(given, Tensor):
        return given, [given]
    if not isinstance(given, Iterable):
        return given, []
    found = list(given)
    parameters = [p for p in found if isinstance(p, Tensor)]
    if isinstance(given, types.GeneratorType):
        return (p for p in found), parameters
    return (iter(found) if isinstance(given, Iterator) else given), parameters


def _prepare(recorder: Recorder, kind: Kind, given: Any, parameters: list[Tensor]) -> _Running:
    recorder.lives.refresh()
    touched = recorder.lives.touched(parameters)
    exhausted = isinstance(given, Iterator) and not parameters
    used = recorder.clips.who_used(given) if exhausted else None
    if used is not None:
        touched = [life for life in recorder.lives.alive() if life is used.optimizer]
    if not exhausted:
        recorder.clips.used_up(given)
    handed = {id(p) for p in parameters}
    gradients = [g for p in parameters if (g := grad_of(p)) is not None]
    others = {id(p) for life in touched for p in life.parameters() if grad_of(p) is not None}
    return _Running(
        parameters=parameters,
        touched=touched,
        before=tuple(life.gradient() for life in touched),
        copies=[] if kind.how == "norm" else [norms.copy(g) for g in gradients],
        fields={
            "places": recorder.here(),
            "parameters": len(parameters),
            "present": len(gradients),
            "missed": len(others - handed),
            "exhausted": exhausted,
            "exhausted_by": used.place if used is not None else None,
            "wrap": kind.wrap or recorder.distributed.wrap_of_parameters(parameters),
        },
    )


def _tell(request: Request, kind: Kind, running: _Running, result: Any) -> None:
    recorder = request.recorder
    now = [g for p in running.parameters if (g := grad_of(p)) is not None]
    for life in running.touched:
        life.clipped = life.clipped or bool(now)
    returned = result if kind.norm is None else request.argument(*kind.norm)
    recorder.emit(
        Clipped,
        touched=running.touched,
        gradients=tuple(life.gradient() for life in running.touched),
        before=running.before,
        function=kind.function,
        how=kind.how,
        limit=_number(request.argument(*kind.limit)),
        returned=_number(returned),
        cosine=_kept(running) if kind.how == "norm" else _cosine(running.copies, now),
        manager=kind.manager or recorder.manager,
        unscales=kind.unscales,
        **running.fields,
    )


def _number(value: Any) -> float | None:
    if isinstance(value, Tensor):
        local = getattr(value, "full_tensor", None)  # of a DTensor the sum over the ranks has been made by torch
        value = local() if callable(local) else value
        return float(value.detach()) if value.numel() == 1 else None
    return float(value) if isinstance(value, int | float) else None


def _kept(running: _Running) -> float | None:
    """A clip by norm multiplies all gradients by one number: copies of them would show nothing but rounding."""
    sizes = [gradient.norm for gradient in running.before if gradient.norm is not None]
    return 1.0 if any(size > 0 and math.isfinite(size) for size in sizes) else None


def _cosine(before: list[Tensor], after: list[Tensor]) -> float | None:
    if len(before) != len(after):
        return None
    old, both, new = norms.products(before, after)
    size = math.sqrt(old) * math.sqrt(new)
    if not size or not math.isfinite(size):
        return None
    return max(-1.0, min(1.0, both / size))
