"""What all measures share: how near is near, and what is asked of a run that is right."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gradlint.runtime.prove.case import Value
from gradlint.runtime.prove.observed import Run

#: of a gradient in float32 that is summed in another order
EXACT = 1e-4
#: of a gradient that passed through float16, which has 11 significant bits, or bfloat16 with 8
HALF = 2e-2
#: a mistake that turns or stretches the gradient by less than this is not shown
PLAIN = 0.1
#: how near a factor has to be to the number that the mistake should give
FACTOR = 0.02


def near(value: float, wanted: float, tolerance: float = FACTOR) -> bool:
    return abs(value - wanted) <= tolerance * abs(wanted)


def all_near(values: Iterable[float], wanted: float, tolerance: float = FACTOR) -> bool:
    """None at all are not near."""
    found = list(values)
    return bool(found) and all(near(value, wanted, tolerance) for value in found)


def mean(values: Iterable[float]) -> float:
    """0 of none."""
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def as_the_large_batch(run: Run, tolerance: float = EXACT, *, limit: float = math.inf) -> bool:
    """The run made all of its updates, each with the gradient of the large batch (clipped at the limit)."""
    return run.complete and run.compared(limit=limit).error < tolerance


def against_the_large_batch(run: Run, *, limit: float = math.inf) -> dict[str, Value]:
    """The numbers of this comparison; None where no step was made."""
    compared = run.compared(limit=limit)
    made = bool(compared.errors)
    return {
        "gradient_to_large_batch": mean(compared.ratios) if made else None,
        "cosine": min(compared.cosines) if made else None,
        "relative_error": compared.error if made else None,
        "updates": run.updates,
    }


def length_said(run: Run) -> str:
    ratios = run.compared().ratios
    return f"the gradient at the step is {mean(ratios):.4g} × that of the large batch" if ratios else "no step was made"


def many(count: float, noun: str) -> str:
    """`4 clips`, `1 clip`."""
    return f"{count:g} {noun}{'' if count == 1 else 's'}"
