"""Frameworks' arguments and configuration keys: which of them clip, how, and who divides the loss.

Read at the source of Lightning 2, Accelerate 1, transformers 5, trl and DeepSpeed 0.19. In all of them None, zero and
negative limits mean that nothing is clipped; all limits are limits of the norm, but for Lightning's "value" algorithm
and Fabric's `clip_val`.
"""

from __future__ import annotations

from gradlint.knowledge.pattern import Pattern
from gradlint.records import dataclass


@dataclass(frozen=True, slots=True)
class ClipArgument:
    """An argument that limits gradients by itself, without a call in the training loop."""

    #: the whole dotted name of what is called; a bare name where the file does not say where it comes from
    made_by: Pattern
    framework: str
    limit: str
    #: the argument that says whether values or the norm are limited; "" where it is always the norm
    algorithm: str = ""


LIGHTNING_TRAINER = Pattern(r"^((lightning|pytorch_lightning|lightning\.pytorch)\.(\w+\.)*)?Trainer$")
#: a class whose automatic optimisation runs backward, clip and step; the loss of its `training_step` is divided
LIGHTNING_MODULE = Pattern(r"(^|\.)LightningModule$")
#: `trl` configurations are training arguments, too
TRAINING_ARGUMENTS = Pattern(r"^(transformers\.(\w+\.)*)?\w*TrainingArguments$|^trl\.(\w+\.)*\w+Config$")
HF_TRAINER = Pattern(r"^(transformers|trl)\.(\w+\.)*\w*Trainer$")

CLIP_ARGUMENTS = (
    ClipArgument(LIGHTNING_TRAINER, "Lightning", "gradient_clip_val", "gradient_clip_algorithm"),
    ClipArgument(TRAINING_ARGUMENTS, "the Trainer", "max_grad_norm"),
    ClipArgument(
        Pattern(r"^(accelerate\.(\w+\.)*)?(DeepSpeedPlugin|MegatronLMPlugin)$"), "Accelerate", "gradient_clipping"
    ),
)

#: the key of a DeepSpeed configuration that limits the norm
DEEPSPEED_CLIP = "gradient_clipping"
DEEPSPEED_STEPS = "gradient_accumulation_steps"
#: a dict with one of these is a DeepSpeed configuration, whoever it is handed to
DEEPSPEED_KEYS = frozenset({"zero_optimization", "train_micro_batch_size_per_gpu"})
#: who takes a DeepSpeed configuration, and in which arguments; the first may be given by position where it is first
DEEPSPEED_TAKERS: tuple[tuple[Pattern, tuple[str, ...], bool], ...] = (
    (Pattern(r"^deepspeed\.initialize$"), ("config", "config_params"), False),
    (Pattern(r"(^|\.)DeepSpeedPlugin$"), ("hf_ds_config", "config"), True),
    (Pattern(r"(^|\.)HfDeepSpeedConfig$"), ("config_file_or_dict",), True),
    (Pattern(r"(^|\.)DeepSpeedStrategy$"), ("config",), False),
    (TRAINING_ARGUMENTS, ("deepspeed",), False),
)

#: a hook that takes the place of the Lightning trainer's clip
LIGHTNING_CLIP_HOOK = "configure_gradient_clipping"
#: the Lightning trainer's number of micro-batches, by which it divides the loss of each `training_step`
LIGHTNING_STEPS = "accumulate_grad_batches"
#: set to False, it makes the Hugging Face trainer divide what `compute_loss` returns, whatever the model takes
HF_LOSS_KWARGS = "model_accepts_loss_kwargs"
#: since transformers 4.46 `compute_loss` is handed this number, and the trainer does not always divide
HF_ITEMS = "num_items_in_batch"
