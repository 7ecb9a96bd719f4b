"""GL4: what the steps found, and in which order things came."""

from __future__ import annotations

from gradlint.runtime.prove.case import Measured, case
from gradlint.runtime.prove.measures.standards import (
    EXACT,
    PLAIN,
    against_the_large_batch,
    as_the_large_batch,
    many,
    mean,
    near,
)
from gradlint.runtime.prove.observed import Run
from gradlint.runtime.recording import BackwardRan, Scheduled, Stepped, Zeroed


@case("GL401", "backwards in each update; gradient at the step against its own batch's", updates=4)
def missing_zero_grad(run: Run) -> Measured:
    errors = run.compared().errors
    cleared = run.count(Zeroed)
    last = errors[-1] if errors else 0.0
    return Measured(
        {**against_the_large_batch(run), "times_cleared": cleared, "relative_error_of_the_last": last},
        # the first step has nothing older to add
        mistaken=run.complete and cleared == 0 and errors[0] < EXACT and min(errors[1:]) > PLAIN,
        right=as_the_large_batch(run) and cleared > 0,
        sentence=f"the last step's gradient differs from that of its batch by {last:.2g} of its length",
    )


@case("GL402", "gradient at the step against the large batch's", updates=3, window=4)
def zero_grad_in_accumulation(run: Run) -> Measured:
    compared = run.compared()
    windows = run.micro_batches()
    lost = run.count(BackwardRan) - sum(windows)
    return Measured(
        {**against_the_large_batch(run), "micro_batches_lost": lost},
        mistaken=run.complete and lost == 9 and compared.error > PLAIN,
        right=as_the_large_batch(run) and lost == 0,
        sentence=f"{lost} of 12 micro-batches are lost; cosine {min(compared.cosines, default=0.0):.3f}",
    )


def _without_gradients(run: Run) -> Measured:
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


@case("GL403", "gradients that the step finds", updates=4)
def zero_grad_before_step(run: Run) -> Measured:
    return _without_gradients(run)


@case("GL404", "gradients that the step finds", updates=4)
def step_before_backward(run: Run) -> Measured:
    return _without_gradients(run)


@case("GL405", "updates made", updates=4)
def method_not_called(run: Run) -> Measured:
    made = run.count(BackwardRan)
    return Measured(
        {"backwards": made, **against_the_large_batch(run)},
        mistaken=not run.error and made == 4 and run.updates == 0,
        right=as_the_large_batch(run),
        sentence=f"{many(made, 'backward')}, {many(run.updates, 'update')}",
    )


@case("GL406", "learning rate of the first update; torch's own warning", updates=4)
def scheduler_before_optimizer(run: Run) -> Measured:
    warned = sum("lr_scheduler.step()` before `optimizer.step()" in message for _, message in run.first.warnings)
    rates = [step.rates[0] for step in run.of(Stepped) if step.rates]
    first = rates[0] if rates else 0.0
    early = _scheduled_before_first_step(run)
    return Measured(
        {"first_learning_rate": first, "learning_rates": rates, "warnings": warned, "scheduled_before": early},
        mistaken=as_the_large_batch(run) and warned > 0 and early == 1 and _halves(rates, 0.005),
        right=as_the_large_batch(run) and warned == 0 and early == 0 and _halves(rates, 0.01),
        sentence=f"lr of the first update: {first:g}, where 0.01 was set; {many(warned, 'warning')} by torch",
    )


def _halves(rates: list[float], first: float) -> bool:
    """Each is half of the one before."""
    return len(rates) == 4 and all(near(rate, first / 2**i) for i, rate in enumerate(rates))


def _scheduled_before_first_step(run: Run) -> int:
    first = next((step.index for step in run.of(Stepped)), 0)
    return sum(scheduled.index < first for scheduled in run.of(Scheduled))
