"""GL5: what the ranks exchange, and whether they still agree afterwards."""

from __future__ import annotations

import math

from gradlint.runtime.prove.case import Measured, Value, case
from gradlint.runtime.prove.measures.standards import (
    EXACT,
    FACTOR,
    PLAIN,
    against_the_large_batch,
    all_near,
    as_the_large_batch,
    length_said,
    many,
    near,
)
from gradlint.runtime.prove.observed import Run, norm
from gradlint.runtime.recording import Clipped, Edited, Synced

RANKS = 2
#: micro-batches in a window
N = 4
MAX_NORM = 1.0
#: weights of ranks that train together are equal to the last bit or nearly so
AGREE = 1e-6


def _exchanges(run: Run) -> float:
    """Of a whole gradient, per update: the models are so small that DDP puts all of it into one bucket."""
    return run.count(Synced) / max(run.updates, 1)


def _numbers(run: Run) -> dict[str, Value]:
    return {
        "all_reduces_per_update": _exchanges(run),
        "difference_between_ranks": run.disagreement(),
        **against_the_large_batch(run),
    }


def _said(run: Run) -> str:
    apart = run.disagreement()
    ranks = "the ranks agree" if apart < AGREE else f"the ranks' weights differ by {apart:.2g}"
    return f"{many(_exchanges(run), 'all-reduce')} per update; {ranks}"


def _together(run: Run) -> bool:
    """Fewer exchanges alone prove nothing: the ranks have to agree, on the right gradient."""
    return as_the_large_batch(run) and run.disagreement() < AGREE


def _too_many_exchanges(run: Run) -> Measured:
    return Measured(
        _numbers(run),
        mistaken=_together(run) and _exchanges(run) == N,
        right=_together(run) and _exchanges(run) == 1,
        sentence=_said(run),
    )


@case("GL501", "all-reduces per update; agreement of the ranks", updates=2, window=N, ranks=RANKS)
def missing_no_sync(run: Run) -> Measured:
    return _too_many_exchanges(run)


@case("GL502", "all-reduces per update; agreement of the ranks", updates=2, window=N, ranks=RANKS)
def forward_outside_no_sync(run: Run) -> Measured:
    return _too_many_exchanges(run)


@case("GL503", "all-reduces per update; agreement of the ranks", updates=2, window=N, ranks=RANKS)
def no_sync_on_boundary(run: Run) -> Measured:
    return Measured(
        _numbers(run),
        mistaken=run.complete and run.disagreement() > 10 * AGREE and run.compared().error > FACTOR,
        right=_together(run) and _exchanges(run) == 1,
        sentence=_said(run),
    )


@case("GL504", "gradient at the step / the large batch's; exchanges by hand", updates=4, ranks=RANKS)
def manual_gradient_sync(run: Run) -> Measured:
    ratios = run.compared().ratios
    # the recorder tells of a loop over all parameters once
    by_hand = sum(edit.how == "reduce" for edit in run.of(Edited))
    return Measured(
        {**_numbers(run), "passes_of_exchange_by_hand": by_hand},
        mistaken=run.complete and by_hand > 0 and all_near(ratios, RANKS),
        right=_together(run) and by_hand == 0,
        sentence=f"{length_said(run)}; exchanged by hand in {by_hand} of {many(run.updates, 'update')}",
    )


@case("GL505", "norm of the whole gradient at the step", updates=4, ranks=RANKS, reference=False)
def fsdp_clip(run: Run) -> Measured:
    whole = _whole_norms(run)
    returned = [[clip.returned or 0.0 for clip in run.of(Clipped, rank)] for rank in range(len(run.ranks))]
    apart = max((abs(a - b) / max(a, b) for a, b in zip(*returned, strict=False)), default=math.inf)
    return Measured(
        {
            "max_norm": MAX_NORM, "norm_at_step": max(whole, default=0.0), "updates": run.updates,
            "norms_returned": [norms[0] if norms else 0.0 for norms in returned], "difference_of_norms": apart,
        },
        mistaken=run.complete and max(whole) > MAX_NORM * (1 + PLAIN) and apart > PLAIN,
        right=run.complete and all(near(length, MAX_NORM, EXACT) for length in whole) and apart < EXACT,
        sentence=f"the whole gradient at the step has norm {max(whole, default=0.0):.3g}; "
        f"the ranks measured {' and '.join(f'{norms[0]:.3g}' for norms in returned if norms)}",
    )  # fmt: skip


def _whole_norms(run: Run) -> list[float]:
    """Each rank holds a shard, and the shards are all of it."""
    steps = zip(*(observed.used for observed in run.ranks), strict=False)
    return [math.hypot(*(norm(used.gradient) for used in shards)) for shards in steps]
