"""Watches GradScaler: scale, unscale_, step and update; lets one made for CUDA work on the CPU."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

import torch

from gradlint.runtime.recorder import backward
from gradlint.runtime.recorder.lives import Life
from gradlint.runtime.recorder.optimizers import tell_step
from gradlint.runtime.recorder.patches import Request
from gradlint.runtime.recording import Place, Unscaled, Updated

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder

CPU_NOTE = "a GradScaler made for cuda works on the CPU in this run"


def base() -> type:
    """The class of all scalers."""
    found: Any = getattr(torch.amp, "GradScaler", None)  # torch >= 2.3
    if found is None:
        found = importlib.import_module("torch.cuda.amp").GradScaler
    return found  # type: ignore[no-any-return]


def install(recorder: Recorder) -> None:
    scaler = base()
    recorder.patches.watch(scaler, "__init__", _made)
    watch_class(recorder, scaler)


def watch_class(recorder: Recorder, kind: type) -> None:
    handlers = {"scale": _scale, "unscale_": _unscale, "step": _step, "update": _update}
    for at in kind.__mro__:
        if issubclass(at, base()):
            for name, handler in handlers.items():
                recorder.patches.watch(at, name, handler, compiled=False)


def _made(request: Request) -> Any:
    recorder = request.recorder
    with recorder.guard("the making of a scaler"):
        watch_class(recorder, type(request.owner))
        _send_to_cpu(request)
    result = request.carry_out()
    with recorder.guard("the making of a scaler"):
        known(recorder, request.owner)
    return result


def _send_to_cpu(request: Request) -> None:
    """Without CUDA a scaler disables itself, and the order of its calls could not be judged."""
    recorder, signature = request.recorder, inspect.signature(request.original)
    if recorder.orders.device != "cpu" or "device" not in signature.parameters or torch.cuda.is_available():
        return
    bound = signature.bind(*request.args, **request.kwargs)
    bound.apply_defaults()
    if bound.arguments["enabled"] and str(bound.arguments["device"]).startswith("cuda"):
        recorder.note(CPU_NOTE)
        bound.arguments["device"] = "cpu"
        request.args, request.kwargs = bound.args, bound.kwargs


def known(recorder: Recorder, scaler: Any) -> str:
    """Its id."""
    return recorder.met(recorder.scalers, scaler, enabled=_enabled(scaler))


def _enabled(scaler: Any) -> bool:
    return bool(getattr(scaler, "_enabled", True))


def _current(scaler: Any) -> float:
    return float(scaler.get_scale())


def _scale(request: Request) -> Any:
    recorder, scaler = request.recorder, request.owner
    if not _enabled(scaler) or recorder.inside("scale"):
        return request.carry_out()
    with recorder.during("scale"):
        result = request.carry_out()
    with recorder.guard("scale"):
        backward.mark_scaled(result, known(recorder, scaler), _current(scaler))
    return result


def _unscale(request: Request) -> Any:
    recorder, scaler, optimizer = request.recorder, request.owner, request.argument(1, "optimizer")
    if not _enabled(scaler) or recorder.inside("unscale"):
        return request.carry_out()
    quiet = recorder.inside("scaler.step", "clip")
    recorder.catch_up()
    life: Life | None = None
    before, name, scale = None, "", 1.0
    places: tuple[Place, ...] = ()
    with recorder.guard("unscale_"):
        life, name, scale, places = recorder.life(optimizer), known(recorder, scaler), _current(scaler), recorder.here()
        before = None if quiet else life.gradient()
    with recorder.during("unscale", optimizer) as call:
        call.about["scaler"] = name
        result = request.carry_out()
    with recorder.guard("unscale_"):
        if life is not None:
            life.scale = 1.0
            if before is not None:
                now = (life.gradient(),)
                about = {"scaler": name, "owner": life.id, "scale": scale}
                recorder.emit(Unscaled, places, (life,), before=(before,), gradients=now, **about)
    return result


def _step(request: Request) -> Any:
    recorder, scaler, optimizer = request.recorder, request.owner, request.argument(1, "optimizer")
    if not _enabled(scaler) or recorder.inside("scaler.step"):
        return request.carry_out()
    recorder.catch_up()
    life: Life | None = None
    name = ""
    with recorder.guard("a step of the scaler"):
        life, name = recorder.life(optimizer), known(recorder, scaler)
        if not life.wrapper:
            recorder.check_steps(life)
    with recorder.during("scaler.step", optimizer) as call:
        call.about["scaler"] = name
        result = request.carry_out()
        with recorder.guard("a step of the scaler"):
            if life is not None and not call.about.get("stepped"):
                tell_step(recorder, life, life.gradient(), recorder.here(), skipped=True, moved=None)
    return result


def _update(request: Request) -> Any:
    recorder, scaler = request.recorder, request.owner
    if not _enabled(scaler) or recorder.inside("update"):
        return request.carry_out()
    recorder.catch_up()
    name, scale = "", 1.0
    with recorder.guard("update"):
        name, scale = known(recorder, scaler), _current(scaler)
    with recorder.during("update") as call:
        call.about["scaler"] = name
        result = request.carry_out()
    with recorder.guard("update"):
        recorder.emit(Updated, scaler=name, scale=scale, new_scale=_current(scaler))
    return result
