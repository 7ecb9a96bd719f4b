"""Watches Accelerate, Fabric and DeepSpeed, once the user's code imports them: what they do in the user's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gradlint.knowledge.frameworks.accelerate import ACCELERATE
from gradlint.knowledge.frameworks.deepspeed import DEEPSPEED
from gradlint.knowledge.frameworks.fabric import FABRIC
from gradlint.runtime.recorder import clips, survey
from gradlint.runtime.recorder.patching import Handler

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

    def handler(recorder: Recorder, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with recorder.during("manager", manager=name) as call:
            with recorder.guard(name):
                call.about["division"] = division(args[0]) if division is not None else 1.0
            return original(*args, **kwargs)

    return handler


def _accelerator(recorder: Recorder, module: Any) -> None:
    accelerator = module.Accelerator
    recorder.patches.watch(accelerator, "backward", _managed(ACCELERATE.name, _accelerate_divides))
    norm = clips.Kind("Accelerator.clip_grad_norm_", limit=("max_norm", 2), manager=ACCELERATE.name, unscales=True)
    value = clips.Kind(
        "Accelerator.clip_grad_value_", "value", ("clip_value", 2), manager=ACCELERATE.name, unscales=True
    )
    recorder.patches.watch(accelerator, "clip_grad_norm_", _accelerate_clip(norm))
    recorder.patches.watch(accelerator, "clip_grad_value_", _accelerate_clip(value))


def _accelerate_divides(accelerator: Any) -> float:
    if str(getattr(accelerator.distributed_type, "value", "")) == "DEEPSPEED":
        return 1.0  # DeepSpeed's engine does it, and says so
    return float(accelerator.gradient_accumulation_steps)


def _accelerate_clip(kind: clips.Kind) -> Handler:
    def handler(recorder: Recorder, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if recorder.inside("clip"):
            return original(*args, **kwargs)
        given = args[1] if len(args) > 1 else kwargs.get("parameters")
        source, parameters = clips.take(given)
        if len(args) > 1:
            args = (args[0], source, *args[2:])
        else:
            kwargs = {**kwargs, "parameters": source}
        return clips.watch(recorder, kind, lambda: original(*args, **kwargs), given, parameters, args, kwargs)

    return handler


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


def _fabric_clip(
    recorder: Recorder, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if recorder.inside("clip"):
        return original(*args, **kwargs)
    by_value = kwargs.get("clip_val") is not None or (len(args) > 3 and args[3] is not None)
    how, limit = ("value", ("clip_val", 3)) if by_value else ("norm", ("max_norm", 4))
    kind = clips.Kind("Fabric.clip_gradients", how, limit, manager=FABRIC.name, unscales=True)
    optimizer = args[2] if len(args) > 2 else kwargs.get("optimizer")
    groups = getattr(optimizer, "param_groups", [])
    parameters = [p for group in groups for p in group["params"] if isinstance(p, Tensor)]
    return clips.watch(recorder, kind, lambda: original(*args, **kwargs), parameters, parameters, args, kwargs)


def _deepspeed(recorder: Recorder, module: Any) -> None:
    engine = module.DeepSpeedEngine
    recorder.patches.watch(engine, "backward", _managed(DEEPSPEED.name, _deepspeed_divides))
    recorder.patches.watch(engine, "step", _managed(DEEPSPEED.name))


def _deepspeed_divides(engine: Any) -> float:
    return float(engine.gradient_accumulation_steps())
