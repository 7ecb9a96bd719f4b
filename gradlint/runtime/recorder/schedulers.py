"""Watches learning-rate schedulers; one that is driven by another, or by its own making, is not the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.optim import lr_scheduler

from gradlint.runtime.recorder.lives import Life
from gradlint.runtime.recorder.patches import Request, subclasses
from gradlint.runtime.recording import Met, Scheduled

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder


def install(recorder: Recorder) -> None:
    base, plateau = lr_scheduler.LRScheduler, lr_scheduler.ReduceLROnPlateau
    kinds: set[Any] = {base, plateau, *subclasses(base), *subclasses(plateau)}
    for kind in kinds:
        watch_class(recorder, kind)
    for kind in {base, *(k for k in kinds if not issubclass(k, base))}:
        _watch_births(recorder, kind)


def watch_class(recorder: Recorder, kind: type) -> None:
    recorder.patches.watch(kind, "__init__", _made)
    recorder.patches.watch(kind, "step", _step, compiled=False)


def _watch_births(recorder: Recorder, kind: Any) -> None:
    """Classes that the user defines later are watched as well."""
    inherited = kind.__init_subclass__

    def born(subclass: Any, /, **kwargs: Any) -> None:
        inherited.__func__(subclass, **kwargs) if hasattr(inherited, "__func__") else inherited(**kwargs)
        with recorder.guard("a new scheduler class"):
            watch_class(recorder, subclass)

    recorder.patches.put(kind, "__init_subclass__", classmethod(born))


def _made(request: Request) -> Any:
    recorder = request.recorder
    if recorder.inside("schedule"):
        return request.carry_out()
    recorder.settle()
    with recorder.during("schedule"):
        result = request.carry_out()
    with recorder.guard("the making of a scheduler"):
        known(recorder, request.owner)
    return result


def known(recorder: Recorder, scheduler: Any) -> str:
    name = recorder.schedulers.get(scheduler)
    if not name:
        name = recorder.schedulers.give(scheduler)
        life = _life(recorder, scheduler)
        owner = life.id if life is not None else ""
        recorder.emit(
            Met,
            id=name,
            role="scheduler",
            type=type(scheduler).__name__,
            optimizer=owner,
            optimizers=(owner,) if owner else (),
        )
    return name


def _life(recorder: Recorder, scheduler: Any) -> Life | None:
    optimizer = getattr(scheduler, "optimizer", None)
    return recorder.life(optimizer) if hasattr(optimizer, "param_groups") else None


def _step(request: Request) -> Any:
    recorder, scheduler = request.recorder, request.owner
    if recorder.inside("schedule"):
        return request.carry_out()
    recorder.settle()
    name, life = "", None
    rates: tuple[float, ...] = ()
    with recorder.guard("a scheduler"):
        recorder.check_patience()
        name, life = known(recorder, scheduler), _life(recorder, scheduler)
        rates = life.rates() if life is not None else ()
    with recorder.during("schedule"):
        result = request.carry_out()
    with recorder.guard("a scheduler"):
        owner = life.id if life is not None else ""
        recorder.emit(
            Scheduled,
            scheduler=name,
            owner=owner,
            optimizers=(owner,) if owner else (),
            rates=rates,
            new_rates=life.rates() if life is not None else (),
            told=len(request.args) > 1 or any(value is not None for value in request.kwargs.values()),
            manager=recorder.manager,
        )
    return result
