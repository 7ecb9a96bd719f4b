"""GL7: gradients that do not reach the first layers."""

from __future__ import annotations

from gradlint.runtime.prove.case import Measured, case
from gradlint.runtime.prove.measures.standards import mean
from gradlint.runtime.prove.observed import Run


@case("GL701", "gradient of the first layer / of the last", updates=4, reference=False, keep=("first_to_last",))
def deep_saturating_stack(run: Run) -> Measured:
    ratio = mean(run.first.values.get("first_to_last", []))
    return Measured(
        {"first_layer_to_last": ratio, "updates": run.updates},
        mistaken=run.complete and 0 < ratio < 1e-4,
        right=run.complete and ratio > 1e-4,
        sentence=f"the first layer's gradient is {ratio:.2g} of the last one's",
    )


@case("GL702", "parameters that a step finds a gradient of", updates=4, reference=False)
def implicit_use_reentrant(run: Run) -> Measured:
    found = [used.present for used in run.first.used]
    total = max((used.total for used in run.first.used), default=0)
    least = min(found, default=0)
    return Measured(
        {"gradients_found": least, "parameters": total, "updates": run.updates},
        mistaken=run.complete and 0 < least < total,
        right=run.complete and least == total > 0,
        sentence=f"a step finds {least} gradients for {total} parameters",
    )
