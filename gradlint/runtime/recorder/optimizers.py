"""Watches optimizers: when they are made, when they clear gradients, when they step."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradlint.runtime import norms
from gradlint.runtime.recorder.lives import Life, parameters_of
from gradlint.runtime.recorder.patches import Request, afterwards, subclasses
from gradlint.runtime.recording import Gradient, Place, Stepped, Zeroed

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Call, Recorder

#: classes that hand `step` and `zero_grad` on to a torch optimizer, which is the one that is watched
_FORWARDERS = frozenset({"AcceleratedOptimizer"})


def install(recorder: Recorder) -> None:
    base = torch.optim.Optimizer
    recorder.patches.watch(base, "__init__", _made)
    recorder.patches.watch(base, "_patch_step_function", afterwards("the making of an optimizer", _step_patched))
    recorder.patches.watch(base, "add_param_group", afterwards("a parameter group", _grown))
    recorder.patches.watch(base, "zero_grad", _zero_grad, compiled=False)
    recorder.patches.watch(torch.nn.Module, "zero_grad", _module_zero_grad, compiled=False)
    for kind in subclasses(base):
        watch_class(recorder, kind)


def watch_class(recorder: Recorder, kind: type) -> None:
    """Watch the methods that a class of optimizers defines itself."""
    if any(at.__name__ in _FORWARDERS for at in kind.__mro__):
        return
    for at in kind.__mro__:
        if at is torch.optim.Optimizer or not issubclass(at, torch.optim.Optimizer):
            continue
        recorder.patches.watch(at, "zero_grad", _zero_grad, compiled=False)
        # Only outside of the hooks that torch puts round a step: taking ours out again must leave those in.
        if hasattr(vars(at).get("step"), "hooked"):
            recorder.patches.watch(at, "step", _step, compiled=False)


def _made(request: Request) -> Any:
    recorder = request.recorder
    recorder.catch_up()
    result = request.carry_out()
    with recorder.guard("the making of an optimizer"):
        recorder.clips.used_up(request.argument(1, "params"), recorder.life(request.owner))
    return result


def _step_patched(request: Request) -> None:
    """torch puts its hooks round the `step` of a class when the first of its optimizers is made or unpickled."""
    watch_class(request.recorder, type(request.owner))


def _grown(request: Request) -> None:
    if request.recorder.lives.get(request.owner) is not None:
        request.recorder.lives.refresh()


# -- clearing ------------------------------------------------------------------------------------------------------


def _zero_grad(request: Request) -> Any:
    recorder = request.recorder
    if recorder.inside("zero", "clip"):
        return request.carry_out()
    life: Life | None = None
    with recorder.guard("zero_grad"):
        life = recorder.life(request.owner)
    if life is None:
        return request.carry_out()
    # one that leaves the step to others may well clear by itself: those others have no gradients then
    return _clearing(request, life.parameters, "optimizer", "" if life.wrapper else life.id)


def _module_zero_grad(request: Request) -> Any:
    if request.recorder.inside("zero", "clip"):
        return request.carry_out()
    return _clearing(request, lambda: list(request.owner.parameters()), "module", "")


def _clearing(request: Request, whose: Callable[[], list[Tensor]], by: str, owner: str) -> Any:
    recorder = request.recorder
    recorder.catch_up()
    with recorder.during("zero"):
        result = request.carry_out()
    with recorder.guard("zero_grad"):
        recorder.lives.refresh()
        touched = recorder.lives.touched(whose())
        if touched:
            if by == "optimizer" and not owner and len(touched) == 1:
                owner = touched[0].id
            tell = functools.partial(_tell_zero, recorder, touched, recorder.here(), by, owner)
            _after_step(recorder, tell)
    return result


def _tell_zero(recorder: Recorder, touched: list[Life], places: tuple[Place, ...], by: str, owner: str) -> None:
    recorder.emit(Zeroed, places, touched, by=by, owner=owner, gradients=cleared(touched))


def cleared(touched: list[Life]) -> tuple[Gradient, ...]:
    """What is left of the gradients of these; where nothing is, a new life begins."""
    found: list[Gradient] = []
    for life in touched:
        gradient = life.gradient()
        if gradient.norm == 0.0:
            life.cleared()
            gradient = Gradient(life.id, 0.0, present=gradient.present, total=gradient.total)
        found.append(gradient)
    return tuple(found)


def _after_step(recorder: Recorder, tell: Callable[[], None]) -> None:
    """An optimizer that clears its gradients at the end of its own step has used them before."""
    step = recorder.call_of("step") if recorder.inside("step") else None
    if step is None:
        tell()
    else:
        step.about.setdefault("afterwards", []).append(tell)


# -- stepping ------------------------------------------------------------------------------------------------------


def _step(request: Request) -> Any:
    recorder, optimizer = request.recorder, request.owner
    running = recorder.call_of("step")
    if running is not None and running.owner is optimizer:  # super().step()
        return request.carry_out()
    recorder.catch_up()
    life: Life | None = None
    with recorder.guard("a step"):
        life = recorder.life(optimizer)
        if not life.wrapper:
            recorder.check_steps(life)
    if life is None or life.wrapper:
        return request.carry_out()
    with recorder.during("step", optimizer) as call:
        _open_closure(request, call)
        with recorder.guard("a step"):
            _before(recorder, life, call)
        result = request.carry_out()
    with recorder.guard("a step"):
        _after(recorder, life, call)
    return result


def _open_closure(request: Request, call: Call) -> None:
    """What a closure does is done by the user, not by the optimizer."""
    given = request.argument(1, "closure")
    if not callable(given) or isinstance(given, torch.nn.Module):
        return
    call.about["closure"] = True

    @functools.wraps(given)
    def closure(*inner: Any, **named: Any) -> Any:
        with request.recorder.during("closure"):
            return given(*inner, **named)

    request.put(1, "closure", closure)


def _before(recorder: Recorder, life: Life, call: Call) -> None:
    optimizer = call.owner
    scale = getattr(optimizer, "grad_scale", None)  # a fused optimizer unscales by itself
    stored = None if scale is None else float(scale)
    call.about["fused_scale"] = stored
    call.about["before"] = life.gradient(scale=stored)
    found = getattr(optimizer, "found_inf", None)
    call.about["found_inf"] = found is not None and float(found) > 0
    parameters = life.parameters()
    call.about["weights"] = [norms.copy(p) for p in parameters]
    if not life.steps and recorder.world > 1 and not recorder.distributed.is_sharded(parameters):
        call.about["start"] = norms.sums(parameters)
    call.about["places"] = recorder.here()


def _after(recorder: Recorder, life: Life, call: Call) -> None:
    about = call.about
    if "before" not in about:
        return
    if about.get("delegated"):
        if life.reference() is call.owner:  # another optimizer of the same parameters did the step, inside of it
            life.wrapper = True
            recorder.lives.refresh()
        return
    for outer in recorder.calls:
        if outer.kind == "step" and parameters_of(outer.owner) & parameters_of(call.owner):
            outer.about["delegated"] = True
    parameters = life.parameters()
    skipped = bool(about["found_inf"])
    moved = None
    if len(parameters) == len(about["weights"]):
        # in place: of a large model there is no room for a third copy
        moved = norms.total([w.sub_(p.detach()) for p, w in zip(parameters, about["weights"], strict=True)])
    about["weights"].clear()
    if about.get("closure"):  # its backwards came after the step began
        about["before"] = life.gradient(scale=about["fused_scale"])
    closure, start = bool(about.get("closure")), about.get("start")
    tell_step(recorder, life, about["before"], about["places"], skipped, moved, closure, start)
    for tell in about.get("afterwards", []):
        tell()


def _checksum(recorder: Recorder, parameters: list[Tensor], moved: float | None) -> tuple[float, float] | None:
    """To compare the ranks by, where there are several; shards differ from rank to rank, as they should. Of one process
    it is taken only where the step went out of bounds: the norm of that may be Inf, and the weights finite."""
    several = recorder.world > 1 or os.environ.get("WORLD_SIZE", "1") != "1"
    if moved is not None and not math.isfinite(moved):
        return norms.sums(parameters)
    return norms.sums(parameters) if several and not recorder.distributed.is_sharded(parameters) else None


def tell_step(
    recorder: Recorder,
    life: Life,
    before: Gradient,
    places: tuple[Place, ...],
    skipped: bool,
    moved: float | None,
    closure: bool = False,
    start: tuple[float, float] | None = None,
) -> None:
    scaled = recorder.call_of("scaler.step")
    if scaled is not None:
        scaled.about["stepped"] = True
    life.steps += 1
    recorder.steps += 1
    recorder.survey.stepped(life)
    life.backwards = 0
    parameters = life.parameters()
    after = life.gradient()
    if before.scale != 1.0 and life.scale != 1.0 and abs(after.norm * before.scale - before.norm) <= 1e-3 * before.norm:
        life.scale = 1.0  # the fused kernel wrote the unscaled gradients back
        after = life.gradient()
    recorder.emit(
        Stepped,
        places,
        (life,),
        owner=life.id,
        number=life.steps,
        skipped=skipped,
        scaler=scaled.about["scaler"] if scaled is not None else "",
        closure=closure,
        before=(before,),
        gradients=(after,),
        rates=life.rates(),
        frozen=sum(not parameter.requires_grad for parameter in parameters),
        moved=None if skipped else moved,
        weights=_checksum(recorder, parameters, moved),
        start=start,
        manager=recorder.manager,
    )
