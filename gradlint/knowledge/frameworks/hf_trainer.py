"""The trainers of transformers 5 and trl: they divide what `compute_loss` returns, and clip by their arguments."""

from __future__ import annotations

from gradlint.events import Framework
from gradlint.knowledge.rows import Calls, Configures, OwnClass, Setting

_METHOD = "compute_loss"


def _divides(own: OwnClass) -> bool:
    """Since transformers 4.46 the trainer leaves it to a model that takes the number of items, as most do.

    A method that cannot be handed that number is written for the trainers before, which always divide.
    """
    if own.calls_super("training_step") is False:
        return False  # its backward is its own
    if own.sets("model_accepts_loss_kwargs", False):
        return True  # the trainer divides what is returned, whatever the model takes
    return not own.takes(_METHOD, "num_items_in_batch")


HF_TRAINER = Framework(
    "the Trainer", clips=True, divides=True, syncs=True, unscales=True, casts=True, logs_norms=True,
    trains=("transformers.**.Trainer*", "transformers.**.Seq2SeqTrainer*"),
    rows=(
        Calls(
            _METHOD, of=("transformers.**.*Trainer", "trl.**.*Trainer"), divides=_divides,
            divisor="gradient_accumulation",
        ),
        # `trl` configurations are training arguments, too
        Configures(
            Setting.LIMIT, "max_grad_norm", "transformers.**.*TrainingArguments", "*TrainingArguments", "trl.**.*Config"
        ),
    ),
)  # fmt: skip
