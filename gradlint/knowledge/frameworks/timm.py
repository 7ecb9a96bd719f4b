"""timm's loss scalers, and those that Swin and many others copied: one call scales, clips, steps and updates."""

from __future__ import annotations

from gradlint.events import Framework, Opaque
from gradlint.knowledge.rows import Does, Thing

TIMM = Framework(
    "timm", clears=True, clips=True, syncs=True, unscales=True, casts=True,
    rows=(Does(Opaque, "__call__", on=Thing.SCALER, words=("caler", "grad_scale")),),
)  # fmt: skip
