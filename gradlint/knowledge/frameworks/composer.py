"""MosaicML Composer 0.2x: its trainer splits batches, weighs the losses of the parts, and clips by an algorithm."""

from __future__ import annotations

from gradlint.events import Framework
from gradlint.knowledge.rows import Calls, Configures, OwnClass, Setting


def _always(_: OwnClass) -> bool:
    """Each part's loss is multiplied by its share of the batch, however the parts are chosen."""
    return True


COMPOSER = Framework(
    "Composer", packages=("composer",), stem="composer", divides=True, syncs=True, unscales=True, casts=True,
    drives=True, logs_norms=True, trains=("composer", "composer.**"),
    rows=(
        Calls(
            "loss", of=("**.ComposerModel", "**.ComposerClassifier"), divides=_always, divisor="accum",
            words=("Composer",),
        ),
        # "adaptive", the third kind, limits the ratio of a gradient to its weights
        Configures(
            Setting.LIMIT, "clipping_threshold", "composer.**.GradientClipping", algorithm="clipping_type", default=None
        ),
        # until 0.12; `device_train_microbatch_size` is the size of a part, not their number
        Configures(Setting.WINDOW, "grad_accum", "composer.**.Trainer"),
    ),
)  # fmt: skip
