"""GL3: windows of micro-batches against the large batch that they stand for."""

from __future__ import annotations

from gradlint.runtime.prove.case import Measured, case
from gradlint.runtime.prove.measures.standards import (
    EXACT,
    PLAIN,
    against_the_large_batch,
    all_near,
    as_the_large_batch,
    length_said,
    many,
    near,
)
from gradlint.runtime.prove.observed import Run
from gradlint.runtime.recording import BackwardRan, Scheduled, Stepped

#: micro-batches in a window
N = 4


@case("GL301", "gradient at the step / the large batch's", updates=3, window=N)
def unscaled_accumulation_loss(run: Run) -> Measured:
    compared = run.compared()
    parallel = min(compared.cosines, default=0.0) > 1 - EXACT
    return Measured(
        against_the_large_batch(run),
        mistaken=run.complete and all_near(compared.ratios, N) and parallel,
        right=as_the_large_batch(run),
        sentence=length_said(run),
    )


@case("GL302", "direction of the gradient at the step", updates=3, window=N)
def gradients_scaled_by_hand(run: Run) -> Measured:
    cosine = min(run.compared().cosines, default=0.0)
    return Measured(
        against_the_large_batch(run),
        mistaken=run.complete and cosine < 1 - PLAIN,
        right=as_the_large_batch(run),
        sentence=f"{length_said(run)}; cosine {cosine:.3f}",
    )


@case("GL304", "micro-batches in each update, and in none", updates=6, window=N, reference=False)
def dropped_last_window(run: Run) -> Measured:
    windows = run.micro_batches()
    made = run.count(BackwardRan)
    lost = made - sum(windows)
    return Measured(
        {"micro_batches_per_update": windows, "micro_batches_lost": lost, "micro_batches": made},
        mistaken=not run.error and windows == [4, 4, 4, 4] and lost == 4,
        right=run.complete and windows == [4, 4, 2, 4, 4, 2] and lost == 0,
        sentence=f"{lost} of {made} micro-batches are in no update",
    )


@case("GL305", "scheduler steps per optimizer step", updates=3, window=N)
def scheduler_per_micro_batch(run: Run) -> Measured:
    rates = [step.rates[0] for step in run.of(Stepped) if step.rates]
    last = rates[-1] if rates else 0.0
    per_step = run.count(Scheduled) / max(run.updates, 1)
    return Measured(
        {"scheduler_steps_per_update": per_step, "learning_rates": rates, "updates": run.updates},
        mistaken=as_the_large_batch(run) and per_step == N and _follow(rates, (0.001, 0.001, 0.001)),
        right=as_the_large_batch(run) and per_step == 1 and _follow(rates, (0.01, 0.007, 0.004)),
        sentence=f"{many(per_step, 'scheduler step')} per update; lr of the last: {last:.3g}",
    )


def _follow(rates: list[float], wanted: tuple[float, ...]) -> bool:
    """The learning rates of the updates, one by one."""
    return len(rates) == len(wanted) and all(near(rate, other) for rate, other in zip(rates, wanted, strict=True))


@case("GL306", "gradient at the step / the large batch's", updates=3, window=N, needs=("accelerate",))
def loss_divided_twice(run: Run) -> Measured:
    return Measured(
        against_the_large_batch(run),
        mistaken=run.complete and all_near(run.compared().ratios, 1 / N),
        right=as_the_large_batch(run),
        sentence=length_said(run),
    )


@case("GL307", "gradient at the step against that of all tokens", updates=2, window=N)
def token_mean_accumulation(run: Run) -> Measured:
    compared = run.compared()
    return Measured(
        against_the_large_batch(run),
        mistaken=run.complete and compared.error > PLAIN,
        right=as_the_large_batch(run),
        sentence=f"{length_said(run)} of tokens, and off by {compared.error:.2g} of its length",
    )


@case("GL308", "micro-batches in each update", updates=3, window=N)
def accumulation_off_by_one(run: Run) -> Measured:
    windows = run.micro_batches()
    return Measured(
        {
            "first_window": windows[0] if windows else 0,
            "micro_batches_per_update": windows,
            **against_the_large_batch(run),
        },
        mistaken=not run.error and windows[:2] == [1, N],
        right=as_the_large_batch(run) and windows == [N] * 3,
        sentence=f"updates are made of {', '.join(map(str, windows))} micro-batches",
    )
