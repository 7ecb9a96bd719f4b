"""Watches learning-rate schedulers; one that is driven by another, or by its own making, is not the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.optim import lr_scheduler

from gradlint.runtime.recorder.lives import Life
from gradlint.runtime.recorder.patches import Request, subclasses
from gradlint.runtime.recording import Scheduled

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
    recorder.catch_up()
    with recorder.during("schedule"):
        result = request.carry_out()
    with recorder.guard("the making of a scheduler"):
        known(recorder, request.owner)
    return result


def known(recorder: Recorder, scheduler: Any) -> tuple[str, list[Life]]:
    """Its id, and its optimizer, if it has one."""
    optimizer = getattr(scheduler, "optimizer", None)
    moved = [recorder.life(optimizer)] if hasattr(optimizer, "param_groups") else []
    return recorder.met(recorder.schedulers, scheduler, moved, optimizer=moved[0].id if moved else ""), moved


def _step(request: Request) -> Any:
    recorder, scheduler = request.recorder, request.owner
    if recorder.inside("schedule"):
        return request.carry_out()
    recorder.catch_up()
    name = ""
    moved: list[Life] = []
    rates: tuple[float, ...] = ()
    with recorder.guard("a scheduler"):
        name, moved = known(recorder, scheduler)
        rates = moved[0].rates() if moved else ()
    with recorder.during("schedule"):
        result = request.carry_out()
    with recorder.guard("a scheduler"):
        recorder.emit(
            Scheduled,
            touched=moved,
            scheduler=name,
            owner=moved[0].id if moved else "",
            rates=rates,
            new_rates=moved[0].rates() if moved else (),
            told=len(request.args) > 1 or any(value is not None for value in request.kwargs.values()),
            manager=recorder.manager,
        )
    return result
