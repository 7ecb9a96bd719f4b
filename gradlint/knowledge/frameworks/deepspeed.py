"""DeepSpeed 0.19: an engine that counts micro-batches, divides, clips and clears, all by its configuration."""

from __future__ import annotations

from gradlint.events import Backward, Framework, Opaque, Step, Zero
from gradlint.knowledge.rows import Configures, Does, Given, Handed, Makes, Setting, Thing, at

_STEPS = "gradient_accumulation_steps"
_CONFIGS = (at(-1, "config"), at(-1, "config_params"))


def _divides(given: Given) -> bool:
    """Unless a configuration in the file says that windows have one micro-batch.

    Without the key DeepSpeed finds the number out from two batch sizes; with one of them it is one.
    """
    config = next((found for found in map(given.get, _CONFIGS) if found is not None), None)
    if config is None or not config.entries:
        return True
    steps = config.entries.get(_STEPS)
    if steps is not None:
        return not (steps.constant and steps.value == 1)
    return {"train_batch_size", "train_micro_batch_size_per_gpu"} <= config.entries.keys()


DEEPSPEED = Framework(
    "DeepSpeed", packages=("deepspeed",), stem="deepspeed", clears=True, clips=True, divides=True, waits=True,
    syncs=True, unscales=True, casts=True, logs_norms=True, trains=("deepspeed", "deepspeed.**"),
    rows=(
        Makes(
            Thing.ENGINE, "**.deepspeed.initialize", named=r"(?i)engine|deepspeed", window=_STEPS, within=_CONFIGS,
            divides=_divides, accumulates=True, model=at(1, "model"), classes=("DeepSpeedEngine",),
            words=("deepspeed",),
        ),
        Does(Backward, "backward", on=Thing.ENGINE, undivided="scale_wrt_gas"),
        Does(Step, "step", on=Thing.ENGINE),
        Does(Zero, "zero_grad", on=Thing.ENGINE),
        Does(Opaque, "train_batch", on=Thing.ENGINE),
        Configures(
            Setting.LIMIT, "gradient_clipping",
            handed=(
                Handed(("deepspeed.initialize",), _CONFIGS),
                Handed(("**.DeepSpeedPlugin",), (at(0, "hf_ds_config"), at(-1, "config"))),
                Handed(("**.HfDeepSpeedConfig",), (at(0, "config_file_or_dict"),)),
                Handed(("**.DeepSpeedStrategy",), (at(-1, "config"),)),
                Handed(
                    ("transformers.**.*TrainingArguments", "*TrainingArguments", "trl.**.*Config"),
                    (at(-1, "deepspeed"),),
                ),
            ),
            beside=frozenset({"zero_optimization", "train_micro_batch_size_per_gpu"}),
        ),
    ),
)  # fmt: skip
