"""What the measures beside the proofs share: how near is near, what is asked of a run that is right, how it is told."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gradlint.runtime.prove.case import Measured, Run, Value
from gradlint.runtime.recording import Clipped, Stepped, Synced

#: of a gradient in float32 that is summed in another order
EXACT = 1e-4
#: of a gradient that passed through float16, which has 11 significant bits, or bfloat16 with 8
HALF = 2e-2
#: a mistake that turns or stretches the gradient by less than this is not shown
PLAIN = 0.1
#: how near a factor has to be to the number that the mistake should give
FACTOR = 0.02

#: what the scripts ask of their clips
MAX_NORM = 1.0
#: what the scripts begin with
SCALE = 1024.0
#: the first torch with a scaler for every device
SCALER = (2, 3)
#: micro-batches in a window
WINDOW = 4
RANKS = 2
#: weights of ranks that train together are equal to the last bit or nearly so
AGREE = 1e-6


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


def first_sentence(text: str) -> str:
    return " ".join(text.partition(". ")[0].split()).rstrip(".")


def warned(run: Run, word: str) -> str:
    """The first of torch's warnings with this word in it, to the end of its first sentence."""
    found = [f"{kind}: {first_sentence(text)}" for kind, text in run.first.warnings if word in text]
    return found[0] if found else "no warning"


def many(count: float, noun: str) -> str:
    """`4 clips`, `1 clip`."""
    return f"{count:g} {noun}{'' if count == 1 else 's'}"


def clip_numbers(run: Run) -> dict[str, Value]:
    clips = list(run.of(Clipped))
    return {
        "max_norm": MAX_NORM,
        "norm_at_step": max(run.norms(), default=0.0),
        "norm_the_clip_returned": max((clip.returned or 0.0 for clip in clips), default=0.0),
        "relative_error": run.compared(limit=MAX_NORM).error,
        "updates": run.updates,
    }


def limited(run: Run) -> bool:
    """Every step used the large batch's gradient, clipped, and had a clip of its own."""
    return (
        as_the_large_batch(run, limit=MAX_NORM)
        and max(run.norms()) <= MAX_NORM * (1 + EXACT)
        and run.count(Clipped) == run.wanted
    )


def unlimited(run: Run) -> bool:
    """Steps used gradients as they were, though they are longer than the limit."""
    return run.compared().error < EXACT and max(run.norms(), default=0.0) > MAX_NORM * (1 + PLAIN)


def norm_said(run: Run) -> str:
    return f"norm at the step up to {max(run.norms(), default=0.0):.3g}, max_norm={MAX_NORM:g}"


def clipped_scaled(run: Run) -> Measured:
    """The norm that clipped gradients really have when the step uses them is the limit in true units."""
    threshold = max(run.norms(), default=0.0)
    return Measured(
        {
            "scale": SCALE, "max_norm": MAX_NORM, "true_threshold": threshold,
            "relative_error": run.compared(limit=MAX_NORM).error, "updates": run.updates,
        },
        mistaken=run.complete and all_near(run.norms(), MAX_NORM / SCALE),
        right=as_the_large_batch(run, HALF, limit=MAX_NORM) and run.count(Clipped) == run.wanted
        and all_near(run.norms(), MAX_NORM, EXACT),
        sentence=f"the true limit is {threshold:.3g} where max_norm={MAX_NORM:g} was asked for, at scale {SCALE:g}",
    )  # fmt: skip


def ending(run: Run, *, limit: float = math.inf) -> dict[str, Value]:
    said = first_sentence(run.error) if run.error else "runs"
    return {"exception": run.exception, "what_torch_says": said, **against_the_large_batch(run, limit=limit)}


def ending_said(run: Run) -> str:
    raised = f"raises {run.error.splitlines()[0].rstrip('.')}" if run.error else "runs to its end"
    return f"{raised}; {run.updates} of {many(run.wanted, 'update')}"


def without_gradients(run: Run) -> Measured:
    """Steps that find nothing, though backwards make something."""
    found = [used.present for used in run.first.used]
    moved = [step.moved or 0.0 for step in run.of(Stepped)]
    return Measured(
        {
            "gradients_found": mean(found), "gradients_there_should_be": run.first.used[0].total if found else 0,
            "weights_moved_by": sum(moved), **against_the_large_batch(run),
        },
        mistaken=run.complete and max(found) == 0 and sum(moved) == 0.0,
        right=as_the_large_batch(run) and all(used.present == used.total for used in run.first.used),
        sentence=f"a step finds {many(mean(found), 'gradient')}; together they move the weights by {sum(moved):.3g}",
    )  # fmt: skip


def exchanges(run: Run) -> float:
    """Of a whole gradient, per update: the models are so small that DDP puts all of it into one bucket."""
    return run.count(Synced) / max(run.updates, 1)


def exchange_numbers(run: Run) -> dict[str, Value]:
    return {
        "all_reduces_per_update": exchanges(run),
        "difference_between_ranks": run.disagreement(),
        **against_the_large_batch(run),
    }


def exchange_said(run: Run) -> str:
    apart = run.disagreement()
    ranks = "the ranks agree" if apart < AGREE else f"the ranks' weights differ by {apart:.2g}"
    return f"{many(exchanges(run), 'all-reduce')} per update; {ranks}"


def together(run: Run) -> bool:
    """Fewer exchanges alone prove nothing: the ranks have to agree, on the right gradient."""
    return as_the_large_batch(run) and run.disagreement() < AGREE


def too_many_exchanges(run: Run) -> Measured:
    return Measured(
        exchange_numbers(run),
        mistaken=together(run) and exchanges(run) == WINDOW,
        right=together(run) and exchanges(run) == 1,
        sentence=exchange_said(run),
    )


def finite(run: Run) -> Measured:
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
