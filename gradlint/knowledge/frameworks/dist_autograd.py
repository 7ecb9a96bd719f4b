"""torch.distributed.autograd: gradients live in a context, not in `.grad`, and end with it."""

from __future__ import annotations

from gradlint.events import Backward, Framework, Step
from gradlint.knowledge.rows import Does, Makes, Thing, at

DIST_AUTOGRAD = Framework(
    "distributed autograd", clears=True, clips=True, divides=True, syncs=True, unscales=True, casts=True,
    logs_norms=True,
    rows=(
        Makes(Thing.OPTIMIZER, "**.DistributedOptimizer"),
        Does(Backward, "torch.distributed.autograd.backward", "**.dist_autograd.backward", loss=at(1)),
        Does(Step, "step", on=Thing.OPTIMIZER, given="context_id"),
    ),
)  # fmt: skip
