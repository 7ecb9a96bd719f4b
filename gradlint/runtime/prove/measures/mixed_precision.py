"""GL2: what the scale does to gradients that are clipped, read or used in the wrong units."""

from __future__ import annotations

import math

from gradlint.runtime.prove.case import Measured, Value, case
from gradlint.runtime.prove.measures.standards import (
    EXACT,
    HALF,
    PLAIN,
    against_the_large_batch,
    all_near,
    as_the_large_batch,
    length_said,
    many,
    mean,
)
from gradlint.runtime.prove.observed import Run, norm
from gradlint.runtime.recording import Clipped, Looked, Stepped, Updated

#: what the scripts begin with
SCALE = 1024.0
MAX_NORM = 1.0
#: the first torch with a scaler for every device
SCALER = (2, 3)


def _threshold(run: Run) -> float:
    """The norm that clipped gradients really have when the step uses them: the limit in true units."""
    return max(run.norms(), default=0.0)


def _clipped_numbers(run: Run) -> dict[str, Value]:
    compared = run.compared(limit=MAX_NORM)
    return {
        "scale": SCALE,
        "max_norm": MAX_NORM,
        "true_threshold": _threshold(run),
        "relative_error": compared.error,
        "updates": run.updates,
    }


def _clipped_in_true_units(run: Run) -> bool:
    """The step used the large batch's gradient, clipped at the limit that the script asks for."""
    return (
        as_the_large_batch(run, HALF, limit=MAX_NORM)
        and run.count(Clipped) == run.wanted
        and all_near(run.norms(), MAX_NORM, EXACT)
    )


def _clipped_scaled(run: Run) -> Measured:
    threshold = _threshold(run)
    return Measured(
        _clipped_numbers(run),
        mistaken=run.complete and all_near(run.norms(), MAX_NORM / SCALE),
        right=_clipped_in_true_units(run),
        sentence=f"the true limit is {threshold:.3g} where max_norm={MAX_NORM:g} was asked for, at scale {SCALE:g}",
    )


@case("GL201", "true threshold of the clip", updates=4, torch=SCALER)
def clip_scaled_gradients(run: Run) -> Measured:
    return _clipped_scaled(run)


@case("GL207", "true threshold of the clip", updates=4, torch=SCALER)
def unscale_after_clip(run: Run) -> Measured:
    return _clipped_scaled(run)


def _numbers(run: Run, *, limit: float = math.inf) -> dict[str, Value]:
    return {"exception": run.exception, **against_the_large_batch(run, limit=limit)}


def _said(run: Run) -> str:
    raised = f"raises {run.error.splitlines()[0].rstrip('.')}" if run.error else "runs to its end"
    return f"{raised}; {run.updates} of {many(run.wanted, 'update')}"


@case("GL202", "exception raised; updates made", updates=4, torch=SCALER)
def double_unscale(run: Run) -> Measured:
    return Measured(
        _numbers(run, limit=MAX_NORM),
        mistaken=run.error.startswith("RuntimeError: unscale_() has already been called") and run.updates == 0,
        right=as_the_large_batch(run, HALF, limit=MAX_NORM),
        sentence=_said(run),
    )


@case("GL203", "gradient at the step / the large batch's; exception raised", updates=4, torch=SCALER)
def step_bypasses_scaler(run: Run) -> Measured:
    ratios = run.compared().ratios
    return Measured(
        {**_numbers(run), "scale": SCALE},
        mistaken=run.exception == "AssertionError" and all_near(ratios, SCALE),
        right=as_the_large_batch(run, HALF),
        sentence=f"{length_said(run)}; {_said(run)}",
    )


@case("GL204", "exception raised; updates made", updates=4, torch=SCALER)
def missing_scaler_update(run: Run) -> Measured:
    return Measured(
        {**_numbers(run), "scaler_updates": run.count(Updated)},
        mistaken=run.error.startswith("RuntimeError: step() has already been called") and run.updates == 1,
        right=as_the_large_batch(run, HALF) and run.count(Updated) == 4,
        sentence=_said(run),
    )


@case("GL205", "exception raised; updates made", updates=3, window=4, torch=SCALER)
def unscale_partial_accumulation(run: Run) -> Measured:
    return Measured(
        _numbers(run),
        mistaken=run.error.startswith("RuntimeError: unscale_() has already been called") and run.updates == 0,
        right=as_the_large_batch(run, HALF),
        sentence=_said(run),
    )


@case("GL206", "exception raised; updates made", updates=4, torch=SCALER)
def backward_bypasses_scaler(run: Run) -> Measured:
    return Measured(
        _numbers(run),
        mistaken=run.exception == "AssertionError" and run.updates == 0,
        right=as_the_large_batch(run, HALF),
        sentence=_said(run),
    )


@case("GL208", "dtype of a float32 product in a backward of one's own", updates=4, reference=False, keep=("dtypes",))
def backward_under_autocast(run: Run) -> Measured:
    dtypes: list[str] = run.first.values.get("dtypes", [])
    kinds = sorted(set(dtypes))
    return Measured(
        {"dtypes": ", ".join(kinds), "backwards": len(dtypes), "updates": run.updates},
        mistaken=run.complete and kinds == ["bfloat16"],
        right=run.complete and kinds == ["float32"],
        sentence=f"the backward multiplies in {' and '.join(kinds) or 'nothing'}",
    )


@case("GL210", "FutureWarnings that torch gives", updates=4, torch=(2, 4))
def deprecated_amp_api(run: Run) -> Measured:
    told = [message for category, message in run.first.warnings if category == "FutureWarning" and "amp" in message]
    return Measured(
        {"future_warnings": len(told), **_numbers(run)},
        mistaken=as_the_large_batch(run, HALF) and bool(told),
        right=as_the_large_batch(run, HALF) and not told,
        sentence=many(len(told), "warning") + (f": {told[0].splitlines()[0]}" if told else ""),
    )


@case("GL211", "norm in the log / true norm", updates=4, keep=("log",), torch=SCALER)
def scaled_gradients_read(run: Run) -> Measured:
    true = [norm(used.reference) for used in run.first.used if used.reference is not None]
    log: list[float] = run.first.values.get("log", [])
    ratios = [logged / wanted for logged, wanted in zip(log, true, strict=False)]
    reads = run.count(Looked)
    return Measured(
        {"scale": SCALE, "norm_in_the_log_to_true_norm": mean(ratios), "updates": run.updates, "reads": reads},
        mistaken=run.complete and all_near(ratios, SCALE),
        right=as_the_large_batch(run, HALF) and len(ratios) == run.wanted and all_near(ratios, 1.0, HALF),
        sentence=f"the norm in the log is {mean(ratios):.4g} × the true one",
    )


@case("GL212", "gradients that became 0", updates=4, torch=SCALER)
def float16_without_scaler(run: Run) -> Measured:
    """The true gradients are all there, about 1e-8: float16 holds nothing below 6e-8."""
    entries = [x for used in run.first.used for x in used.gradient]
    lost = sum(x == 0.0 for x in entries) / len(entries) if entries else 1.0
    compared = _tiny(run)
    return Measured(
        {"share_of_gradients_that_are_0": lost, "relative_error": compared, "updates": run.updates},
        mistaken=run.complete and lost > PLAIN and compared > PLAIN,
        right=run.complete and lost == 0.0 and compared < HALF,
        sentence=f"{lost:.0%} of the gradient's entries are 0; it is off by {compared:.2g} of its length",
    )


def _tiny(run: Run) -> float:
    """The largest relative error, where the script's loss is 1e-8 times that of the large batch."""
    found = [
        norm([a - 1e-8 * b for a, b in zip(used.gradient, used.reference, strict=True)]) / (1e-8 * norm(used.reference))
        for used in run.first.used
        if used.reference is not None
    ]
    return max(found, default=math.inf)


@case("GL213", "gradient of the second optimizer / the large batch's", updates=4, torch=SCALER)
def double_scaler_update(run: Run) -> Measured:
    ratios = run.compared(optimizer=1).ratios
    scaled = run.count(Updated)
    steps = len({step.owner for step in run.of(Stepped)})
    return Measured(
        {
            "first_optimizer_to_large_batch": mean(run.compared().ratios),
            "second_optimizer_to_large_batch": mean(ratios),
            "scaler_updates": scaled,
            "optimizers": steps,
        },
        mistaken=not run.error and all_near(ratios, 0.5) and scaled == 8,
        right=as_the_large_batch(run, HALF) and run.compared(optimizer=1).error < HALF and scaled == 4,
        sentence=f"the second optimizer's gradient is {mean(ratios):.3g} × that of the large batch",
    )
