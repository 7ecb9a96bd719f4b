"""GL1: what the clips did, and how long the gradients were that the steps used."""

from __future__ import annotations

import math

from gradlint.runtime.prove.case import Measured, Value, case
from gradlint.runtime.prove.measures.standards import EXACT, PLAIN, as_the_large_batch, many, mean
from gradlint.runtime.prove.observed import Run
from gradlint.runtime.recording import Clipped, Stepped

#: what the scripts ask of their clips
MAX_NORM = 1.0


def _clip_numbers(run: Run) -> dict[str, Value]:
    clips = list(run.of(Clipped))
    return {
        "max_norm": MAX_NORM,
        "norm_at_step": max(run.norms(), default=0.0),
        "norm_the_clip_returned": max((clip.returned or 0.0 for clip in clips), default=0.0),
        "relative_error": run.compared(limit=MAX_NORM).error,
        "updates": run.updates,
    }


def _limited(run: Run) -> bool:
    """Every step used the large batch's gradient, clipped, and had a clip of its own."""
    return (
        as_the_large_batch(run, limit=MAX_NORM)
        and max(run.norms()) <= MAX_NORM * (1 + EXACT)
        and run.count(Clipped) == run.wanted
    )


def _unlimited(run: Run) -> bool:
    """Steps used gradients as they were, though they are longer than the limit."""
    return run.compared().error < EXACT and max(run.norms(), default=0.0) > MAX_NORM * (1 + PLAIN)


def _norm_said(run: Run) -> str:
    return f"norm at the step up to {max(run.norms(), default=0.0):.3g}, max_norm={MAX_NORM:g}"


@case("GL101", "norm at the step against max_norm", updates=4)
def clip_after_step(run: Run) -> Measured:
    consumed = _clips_after_steps(run)
    return Measured(
        {**_clip_numbers(run), "clips_of_used_gradients": consumed},
        mistaken=_unlimited(run) and consumed > 0,
        right=_limited(run) and consumed == 0,
        sentence=f"{_norm_said(run)}; {many(consumed, 'clip')} came after the step",
    )


def _clips_after_steps(run: Run) -> int:
    """Clips with no backward between the last step and them."""
    late = 0
    fresh = True
    for happening in run.happenings():
        if happening.KIND in ("backward", "step"):
            fresh = happening.KIND == "backward"
        late += happening.KIND == "clip" and not fresh
    return late


@case("GL102", "gradients that the clip finds; norm at the step against max_norm", updates=4)
def clip_before_backward(run: Run) -> Measured:
    found = [clip.present for clip in run.of(Clipped)]
    return Measured(
        {**_clip_numbers(run), "gradients_the_clip_found": max(found, default=0)},
        mistaken=_unlimited(run) and bool(found) and max(found) == 0,
        right=_limited(run) and min(found, default=0) > 0,
        sentence=f"the clip found {max(found, default=0)} gradients; {_norm_said(run)}",
    )


@case("GL103", "clips per update; direction of the gradient at the step", updates=3, window=4)
def clip_partial_accumulation(run: Run) -> Measured:
    clips = run.count(Clipped) / max(run.updates, 1)
    compared = run.compared(limit=MAX_NORM)
    cosine = min(compared.cosines, default=0.0)
    return Measured(
        {"clips_per_update": clips, "cosine": cosine, "relative_error": compared.error, "updates": run.updates},
        mistaken=clips == 4 and compared.error > PLAIN,
        right=_limited(run),
        sentence=f"{many(clips, 'clip')} per update; cosine {cosine:.3f} to the clipped gradient of the large batch",
    )


@case("GL104", "angle between the gradient before and after the clip", updates=4)
def value_clipping(run: Run) -> Measured:
    cosine = min(run.compared().cosines, default=0.0)
    return Measured(
        {"cosine": cosine, "norm_at_step": max(run.norms(), default=0.0), "updates": run.updates},
        mistaken=run.complete and cosine < 1 - PLAIN,
        right=_limited(run) and cosine > 1 - EXACT,
        sentence=f"the gradient that the step uses is turned by {_degrees(cosine):.1f} degrees",
    )


def _degrees(cosine: float) -> float:
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))


@case("GL105", "share of the updates that were clipped; loss at the end", updates=40, keep=("losses",))
def clip_threshold_too_small(run: Run) -> Measured:
    clips = list(run.of(Clipped))
    share = mean(bool(clip.active) for clip in clips)
    losses: list[float] = run.first.values.get("losses", [])
    fell = mean(losses[-8:]) / mean(losses[:8]) if losses else math.nan
    return Measured(
        {"share_of_updates_clipped": share, "loss_at_the_end_to_that_at_the_beginning": fell, "updates": run.updates},
        mistaken=run.complete and share == 1.0 and fell > 1 - PLAIN,
        right=run.complete and len(clips) == 40 and share < 0.5 and fell < 0.5,
        sentence=f"{share:.0%} of the updates were clipped, the loss ends at {fell:.1%} of what it was",
    )


@case("GL106", "norm that the clip returns; norm at the step against max_norm", updates=4)
def clip_exhausted_generator(run: Run) -> Measured:
    handed = [clip.parameters for clip in run.of(Clipped)]
    warned = sum("empty generator" in message for _, message in run.first.warnings)
    return Measured(
        {**_clip_numbers(run), "parameters_the_clip_got": max(handed, default=0), "warnings": warned},
        mistaken=_unlimited(run) and bool(handed) and max(handed) == 0,
        right=_limited(run) and min(handed, default=0) > 0 and warned == 0,
        sentence=f"the clip was given {max(handed, default=0)} parameters; {_norm_said(run)}",
    )


@case("GL107", "parameters that the step uses and the clip is not given; norm at the step", updates=4)
def clip_misses_parameters(run: Run) -> Measured:
    """The recorder tells of the optimizers that a clip touched: one that touched none missed all there was."""
    trained = sum(gradient.present for step in run.of(Stepped) for gradient in step.before)
    reached = sum(clip.present for clip in run.of(Clipped))
    missed = trained - reached
    of_all = f"{missed} of the {trained} gradients that steps used"
    return Measured(
        {**_clip_numbers(run), "gradients_used": trained, "gradients_clipped": reached},
        mistaken=_unlimited(run) and trained > 0 and reached == 0,
        right=_limited(run) and trained > 0 and missed == 0,
        sentence=f"{of_all} were not given to a clip; {_norm_said(run)}",
    )


@case("GL108", "largest norm at a step", updates=6, reference=False)
def missing_clip(run: Run) -> Measured:
    """Norms over 100 count as exploding, a rule of thumb; here one batch gives them on purpose."""
    clips = list(run.of(Clipped))
    largest = max(run.norms(), default=0.0)
    met = max((clip.returned or 0.0 for clip in clips), default=largest)
    return Measured(
        {"norm_of_the_worst_gradient": met, "norm_at_step": largest, "clips": len(clips), "updates": run.updates},
        mistaken=run.complete and not clips and largest > 100,
        right=run.complete and len(clips) == 6 and met > 100 and largest <= MAX_NORM * (1 + EXACT),
        sentence=f"the worst batch has a gradient of norm {met:.3g}; norm at the step up to {largest:.3g}",
    )


@case("GL109", "clips that changed anything", updates=12, reference=False)
def needless_clip(run: Run) -> Measured:
    clips = list(run.of(Clipped))
    active = sum(bool(clip.active) for clip in clips)
    largest = max(run.norms(), default=0.0)
    return Measured(
        {"clips": len(clips), "clips_that_acted": active, "norms_at_steps": run.norms(), "updates": run.updates},
        mistaken=run.complete and len(clips) == 12 and active == 0,
        right=run.complete and not clips and largest < 5.0,
        sentence=f"{active} of {many(len(clips), 'clip')} acted; norm at the step up to {largest:.3g}",
    )


@case("GL111", "norm at the step against max_norm", updates=4)
def gradient_edit_after_clip(run: Run) -> Measured:
    returned = [clip.returned or 0.0 for clip in run.of(Clipped)]
    longest = max(run.norms(), default=0.0)
    return Measured(
        {"max_norm": MAX_NORM, "norm_at_step": longest, "clips": len(returned), "updates": run.updates},
        mistaken=run.complete and len(returned) == 4 and longest > MAX_NORM * (1 + PLAIN),
        right=run.complete and len(returned) == 4 and min(returned) > MAX_NORM
        and all(abs(norm - MAX_NORM) < EXACT for norm in run.norms()),
        sentence=_norm_said(run),
    )  # fmt: skip


@case("GL110", "FutureWarnings that torch gives", updates=4)
def deprecated_clip(run: Run) -> Measured:
    told = [text for kind, text in run.first.warnings if kind == "FutureWarning" and "clip_grad_norm" in text]
    return Measured(
        {"future_warnings": len(told), **_clip_numbers(run)},
        mistaken=_limited(run) and bool(told),
        right=_limited(run) and not told,
        sentence=many(len(told), "warning") + (f": {told[0].splitlines()[0]}" if told else ""),
    )


@case("GL112", "largest norm in the log against the gradients'", updates=4, keep=("log",))
def norm_measured_after_clip(run: Run) -> Measured:
    log: list[float] = run.first.values.get("log", [])
    there = max((clip.returned or 0.0 for clip in run.of(Clipped)), default=0.0)
    seen = max(log, default=0.0)
    return Measured(
        {"norm_in_the_log": seen, "norm_of_the_gradients": there, "max_norm": MAX_NORM, "updates": run.updates},
        mistaken=_limited(run) and there > 10 * MAX_NORM and all(abs(x - MAX_NORM) < PLAIN for x in log) and bool(log),
        right=_limited(run) and there > 0 and abs(seen - there) < EXACT * there,
        sentence=f"the log shows norms up to {seen:.3g}; the gradients' go up to {there:.3g}",
    )
