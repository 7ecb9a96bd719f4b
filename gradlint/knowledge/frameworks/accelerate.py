"""Hugging Face Accelerate 1: windows by `accumulate`, amid which prepared objects do nothing; a clip that unscales."""

from __future__ import annotations

from gradlint.events import Backward, Clip, ClipKind, Framework
from gradlint.knowledge.rows import (
    Configures,
    Does,
    Given,
    Makes,
    Opens,
    Passes,
    Setting,
    Switch,
    Thing,
    at,
)

_STEPS = "gradient_accumulation_steps"
_PLUGINS = (at(-1, "gradient_accumulation_plugin"), at(-1, "deepspeed_plugin"))


def _divides(given: Given) -> bool:
    """It divides by what it is given, unless that is the number 1, written down."""
    steps = given.get(at(-1, _STEPS))
    for plugin in _PLUGINS:
        handed = given.get(plugin)
        steps = steps or (handed.entries.get(_STEPS) if handed is not None else None)
    return steps is not None and not (steps.constant and steps.value == 1 and steps.text == "1")


ACCELERATE = Framework(
    "Accelerate", packages=("accelerate",), stem="accelerat", windows=True, syncs=True,
    rows=(
        Makes(
            Thing.OBJECT, "**.Accelerator", named=r"(?i)accelerator$|^accel$", prepared_by="accelerator", window=_STEPS,
            within=_PLUGINS, divides=_divides, precision="mixed_precision",
        ),
        # with float16 it has a scaler inside
        Makes(Thing.SCALER, "**.Accelerator", words=("mixed_precision",)),
        Makes(Thing.PLUGIN, "**.GradientAccumulationPlugin", settings={_STEPS: at(0, "num_steps")}),
        Makes(Thing.PLUGIN, "**.DeepSpeedPlugin", settings={_STEPS: at(1, _STEPS)}, within=(at(0, "hf_ds_config"),)),
        # the last goes through to DeepSpeed's engine
        Does(Backward, "backward", undivided="scale_wrt_gas"),
        Does(Clip, "clip_grad_norm_"),
        Does(Clip, "clip_grad_value_", kind=ClipKind.VALUE),
        Does(None, "unscale_gradients"),
        Opens(Switch.WINDOW, "accumulate", told_by="sync_gradients", telling=True),
        # amid a window it withholds synchronisation as well
        Opens(Switch.NO_SYNC, "no_sync", "accumulate"),
        Opens(Switch.AUTOCAST, "autocast"),
        Opens(Switch.OTHER, "join_uneven_inputs"),
        Passes("prepare", prepares=True, telling=True),
        Passes("prepare_model", "prepare_optimizer", "prepare_data_loader", "prepare_scheduler", prepares=True),
        Passes("unwrap_model", argument=at(0, "model")),
        Configures(
            Setting.LIMIT, "gradient_clipping",
            "accelerate.**.DeepSpeedPlugin", "accelerate.**.MegatronLMPlugin", "DeepSpeedPlugin", "MegatronLMPlugin",
        ),
    ),
)  # fmt: skip
