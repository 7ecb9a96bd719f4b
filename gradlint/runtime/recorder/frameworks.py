"""Watches Accelerate, Fabric and DeepSpeed, once the user's code imports them: what they do in the user's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gradlint.knowledge.frameworks.accelerate import ACCELERATE
from gradlint.knowledge.frameworks.deepspeed import DEEPSPEED
from gradlint.knowledge.frameworks.fabric import FABRIC
from gradlint.runtime.recorder import clips, survey
from gradlint.runtime.recorder.patching import Handler, Request

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder


def install(recorder: Recorder) -> None:
    when = recorder.parts.imports.when
    when("accelerate.accelerator", _accelerator)
    when("accelerate.optimizer", _accelerated_optimizer)
    when("accelerate.scheduler", _accelerated_scheduler)
    when("accelerate.data_loader", _accelerated_loader)
    for package in ("lightning_fabric", "lightning.fabric"):
        when(f"{package}.fabric", _fabric)
        when(f"{package}.wrappers", _fabric_wrappers)
    when("deepspeed.runtime.engine", _deepspeed)


def _managed(name: str, division: Callable[[Any], float] | None = None) -> Handler:
    """What happens inside is done by the framework; `division`: what it divides a loss by."""

    def handler(request: Request) -> Any:
        recorder = request.recorder
        with recorder.during("manager", manager=name) as call:
            with recorder.guard(name):
                call.about["division"] = division(request.owner) if division is not None else 1.0
            return request.carry_out()

    return handler


def _accelerator(recorder: Recorder, module: Any) -> None:
    accelerator = module.Accelerator
    recorder.patches.watch(accelerator, "backward", _managed(ACCELERATE.name, _accelerate_divides))
    for name, how, limit in (("clip_grad_norm_", "norm", "max_norm"), ("clip_grad_value_", "value", "clip_value")):
        kind = clips.Kind(f"Accelerator.{name}", how, (2, limit), manager=ACCELERATE.name, unscales=True)
        recorder.patches.watch(accelerator, name, clips.watching(kind, 1))


def _accelerate_divides(accelerator: Any) -> float:
    if str(getattr(accelerator.distributed_type, "value", "")) == "DEEPSPEED":
        return 1.0  # DeepSpeed's engine does it, and says so
    return float(accelerator.gradient_accumulation_steps)


def _accelerated_optimizer(recorder: Recorder, module: Any) -> None:
    recorder.patches.watch(module.AcceleratedOptimizer, "step", _managed(ACCELERATE.name))
    recorder.patches.watch(module.AcceleratedOptimizer, "zero_grad", _managed(ACCELERATE.name))


def _accelerated_scheduler(recorder: Recorder, module: Any) -> None:
    recorder.patches.watch(module.AcceleratedScheduler, "step", _managed(ACCELERATE.name))


def _accelerated_loader(recorder: Recorder, module: Any) -> None:
    for name in ("DataLoaderShard", "DataLoaderDispatcher"):
        if hasattr(module, name):
            recorder.patches.watch(getattr(module, name), "__iter__", survey.read_ahead)


def _fabric(recorder: Recorder, module: Any) -> None:
    recorder.patches.watch(module.Fabric, "backward", _managed(FABRIC.name))
    recorder.patches.watch(module.Fabric, "clip_gradients", _fabric_clip)


def _fabric_wrappers(recorder: Recorder, module: Any) -> None:
    recorder.patches.watch(module._FabricOptimizer, "step", _managed(FABRIC.name))


def _fabric_clip(request: Request) -> Any:
    if request.recorder.inside("clip"):
        return request.carry_out()
    by_value = request.argument(3, "clip_val") is not None
    how, limit = ("value", (3, "clip_val")) if by_value else ("norm", (4, "max_norm"))
    kind = clips.Kind("Fabric.clip_gradients", how, limit, manager=FABRIC.name, unscales=True)
    groups = getattr(request.argument(2, "optimizer"), "param_groups", [])
    parameters = [p for group in groups for p in group["params"] if isinstance(p, Tensor)]
    return clips.watch(request, kind, parameters, parameters)


def _deepspeed(recorder: Recorder, module: Any) -> None:
    engine = module.DeepSpeedEngine
    recorder.patches.watch(engine, "backward", _managed(DEEPSPEED.name, _deepspeed_divides))
    recorder.patches.watch(engine, "step", _managed(DEEPSPEED.name))


def _deepspeed_divides(engine: Any) -> float:
    return float(engine.gradient_accumulation_steps())
