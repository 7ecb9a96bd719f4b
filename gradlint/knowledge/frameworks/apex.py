"""NVIDIA apex: `amp.scale_loss`, optimizers with master copies of gradients, and wrappers without no_sync."""

from __future__ import annotations

from gradlint.events import Backward, Clip, Framework
from gradlint.knowledge.rows import Does, Makes, Opens, Passes, Switch, Thing, at

APEX = Framework(
    "apex", packages=("apex",), stem="apex", clears=True, syncs=True, unscales=True, casts=True,
    rows=(
        Makes(Thing.OPTIMIZER, "**.FP16_Optimizer"),
        Does(Backward, "backward", on=Thing.OPTIMIZER),
        Does(Clip, "clip_master_grads", "clip_grad_norm", "clip_grad_norm_", on=Thing.OPTIMIZER),
        # copies them for its step
        Does(None, "update_master_grads", on=Thing.OPTIMIZER),
        Opens(Switch.LOSS, "**.scale_loss"),
        Passes("apex.amp.initialize", "amp.initialize", first=2),
        Passes("apex.**", argument=at(0, "module", "model")),
    ),
)  # fmt: skip
