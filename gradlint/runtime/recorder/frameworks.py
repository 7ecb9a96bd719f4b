"""Watches Accelerate, Fabric and DeepSpeed, once the user's code imports them: what they do in the user's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gradlint.knowledge.frameworks.accelerate import ACCELERATE
from gradlint.knowledge.frameworks.deepspeed import DEEPSPEED
from gradlint.knowledge.frameworks.fabric import FABRIC
from gradlint.runtime.recorder import clips, survey
from gradlint.runtime.recorder.patches import Handler, Request

if TYPE_CHECKING:
    from gradlint.runtime.recorder.session import Recorder


def _managed(name: str, division: Callable[[Any], float] | None = None) -> Handler:
    """What happens inside is done by the framework; `division`: what it divides a loss by."""

    def handler(request: Request) -> Any:
        recorder = request.recorder
        with recorder.during("manager", manager=name) as call:
            with recorder.guard(name):
                call.about["division"] = division(request.owner) if division is not None else 1.0
            return request.carry_out()

    return handler


def _accelerate_divides(accelerator: Any) -> float:
    if str(getattr(accelerator.distributed_type, "value", "")) == "DEEPSPEED":
        return 1.0  # DeepSpeed's engine does it, and says so
    return float(accelerator.gradient_accumulation_steps)


def _fabric_clip(request: Request) -> Any:
    if request.recorder.inside("clip"):
        return request.carry_out()
    by_value = request.argument(3, "clip_val") is not None
    how, limit = ("value", (3, "clip_val")) if by_value else ("norm", (4, "max_norm"))
    kind = clips.Kind("Fabric.clip_gradients", how, limit, manager=FABRIC.name, unscales=True)
    groups = getattr(request.argument(2, "optimizer"), "param_groups", [])
    parameters = [p for group in groups for p in group["params"] if isinstance(p, Tensor)]
    return clips.watch(request, kind, parameters, parameters)


def install(recorder: Recorder) -> None:
    watch = recorder.imports.watch
    watch("accelerate.accelerator", "Accelerator", "backward", _managed(ACCELERATE.name, _accelerate_divides))
    for name, how, limit in (("clip_grad_norm_", "norm", "max_norm"), ("clip_grad_value_", "value", "clip_value")):
        kind = clips.Kind(f"Accelerator.{name}", how, (2, limit), manager=ACCELERATE.name, unscales=True)
        watch("accelerate.accelerator", "Accelerator", name, clips.watching(kind, 1))
    watch("accelerate.optimizer", "AcceleratedOptimizer", "step", _managed(ACCELERATE.name))
    watch("accelerate.optimizer", "AcceleratedOptimizer", "zero_grad", _managed(ACCELERATE.name))
    watch("accelerate.scheduler", "AcceleratedScheduler", "step", _managed(ACCELERATE.name))
    for loader in ("DataLoaderShard", "DataLoaderDispatcher"):
        watch("accelerate.data_loader", loader, "__iter__", survey.read_ahead)
    for package in ("lightning_fabric", "lightning.fabric"):
        watch(f"{package}.fabric", "Fabric", "backward", _managed(FABRIC.name))
        watch(f"{package}.fabric", "Fabric", "clip_gradients", _fabric_clip)
        watch(f"{package}.wrappers", "_FabricOptimizer", "step", _managed(FABRIC.name))
    divides = _managed(DEEPSPEED.name, lambda engine: float(engine.gradient_accumulation_steps()))
    watch("deepspeed.runtime.engine", "DeepSpeedEngine", "backward", divides)
    watch("deepspeed.runtime.engine", "DeepSpeedEngine", "step", _managed(DEEPSPEED.name))
