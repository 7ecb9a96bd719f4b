"""Lightning Fabric 2: the loop is the user's, windows and synchronisation too; it never divides a loss."""

from __future__ import annotations

from gradlint.events import Backward, Clip, Framework
from gradlint.knowledge.rows import Does, Makes, Opens, Passes, Switch, Thing, at

FABRIC = Framework(
    "Fabric", packages=("lightning", "lightning_fabric"), stem="fabric",
    rows=(
        Makes(Thing.OBJECT, "**.Fabric", "**.LightningLite", named=r"(?i)^_?fabric$", precision="precision"),
        # with float16 it has a scaler inside
        Makes(Thing.SCALER, "**.Fabric", "**.LightningLite", words=("precision",)),
        Does(Backward, "backward"),
        # one of the two limits is None
        Does(Clip, "clip_gradients", value=at(2, "clip_val"), limit=at(3, "max_norm")),
        Opens(Switch.NO_SYNC, "no_backward_sync", enabled=at(1, "enabled"), telling=True),
        Opens(Switch.AUTOCAST, "autocast"),
        Passes("setup", "setup_dataloaders", prepares=True),
        Passes("setup_module", "setup_optimizers", prepares=True, telling=True),
    ),
)  # fmt: skip
