"""GL6: losses and gradients that are not finite, or that vanish."""

from __future__ import annotations

import math

from gradlint.runtime.prove.case import Measured, Value, case
from gradlint.runtime.prove.measures.standards import many
from gradlint.runtime.prove.observed import Run


def _finite(run: Run) -> Measured:
    """What a script that guards its numbers has, and one that does not has lost."""
    losses: list[float] = run.first.values.get("losses", [])
    bad = sum(not math.isfinite(loss) for loss in losses)
    steps = sum(not math.isfinite(norm) for norm in run.norms())
    numbers: dict[str, Value] = {
        "losses_not_finite": bad, "gradients_not_finite": steps, "updates": run.updates,
    }  # fmt: skip
    weights = all(map(math.isfinite, run.first.weights))
    lost = "" if weights else "; the weights are lost"
    return Measured(
        numbers,
        mistaken=not run.error and run.updates == run.wanted and bad + steps > 0,
        right=run.complete and bad == steps == 0 and weights,
        sentence=f"{many(bad, 'loss').replace('losss', 'losses')} and {many(steps, 'gradient')} of {run.updates} "
        f"not finite{lost}",
    )


for _code in ("GL601", "GL602", "GL603", "GL604", "GL605"):
    case(_code, "losses and gradients that are not finite", updates=4, reference=False, keep=("losses",))(_finite)


@case("GL606", "norm of the gradient of a prediction that is sure and wrong", updates=4, reference=False)
def softmax_before_cross_entropy(run: Run) -> Measured:
    largest = max(run.norms(), default=0.0)
    return Measured(
        {"norm_at_step": largest, "updates": run.updates},
        mistaken=run.complete and largest < 1e-3,
        right=run.complete and min(run.norms()) > 0.1,
        sentence=f"the gradient of a prediction that is sure and wrong has norm {largest:.3g}",
    )
