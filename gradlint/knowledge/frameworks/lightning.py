"""Lightning 2: its trainer calls `training_step`, divides the loss, runs the backward, clips and steps."""

from __future__ import annotations

from gradlint.events import Backward, Clip, Framework
from gradlint.knowledge.rows import Calls, Configures, Does, Makes, OwnClass, Setting, Thing, at

_TRAINER = ("lightning.**.Trainer", "pytorch_lightning.**.Trainer", "Trainer")


def _always(_: OwnClass) -> bool:
    return True


LIGHTNING = Framework(
    "Lightning", packages=("lightning", "pytorch_lightning"), stem="lightning", syncs=True, unscales=True, casts=True,
    drives=True, logs_norms=True, trains=("**.LightningModule",),
    rows=(
        Calls(
            "training_step", of=("**.LightningModule",), alike=("training_step", "configure_optimizers"),
            by_hand="automatic_optimization", divides=_always,
        ),
        Does(Backward, "manual_backward", on=Thing.SUBCLASS),
        Does(
            Clip, "clip_gradients", on=Thing.SUBCLASS, limit=at(1, "gradient_clip_val"),
            algorithm=at(2, "gradient_clip_algorithm"),
        ),
        Does(
            None, "toggle_optimizer", "untoggle_optimizer", "log", "log_dict", "print", "all_gather", on=Thing.SUBCLASS
        ),
        Makes(Thing.TEXT, "optimizers", "lr_schedulers"),
        Configures(
            Setting.LIMIT, "gradient_clip_val", *_TRAINER, algorithm="gradient_clip_algorithm",
            enumeration="GradClipAlgorithmType", passed_on=True, replaced_by="configure_gradient_clipping",
        ),
        Configures(Setting.WINDOW, "accumulate_grad_batches", *_TRAINER),
    ),
)  # fmt: skip
