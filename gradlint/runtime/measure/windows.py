"""GL3 and GL4: how many backwards a step adds up, what each of them weighs, and when gradients are cleared."""

from __future__ import annotations

from collections import Counter

from gradlint.events import Norm
from gradlint.runtime.measure import (
    SINGLE,
    Asked,
    Run,
    Shown,
    exception,
    here,
    marks,
    measures,
    number,
    share,
    true_norm,
)
from gradlint.runtime.recording import (
    BackwardRan,
    Edited,
    Happening,
    LoaderTurned,
    Scheduled,
    Stepped,
    Updated,
    Warned,
    Zeroed,
)
from gradlint.runtime.replay import normalisation
from gradlint.states import Window


def _sums(asked: Asked, backwards: list[BackwardRan]) -> list[tuple[Window, list[BackwardRan]]]:
    """The full windows that add up several of these backwards."""
    mine = set(marks(backwards))
    pairs = [(window, [b for b in asked.run.used(window) if b.index in mine]) for window in asked.windows(backwards)]
    return [(window, used) for window, used in pairs if len(used) > 1]


@measures("GL301", of=here(BackwardRan))
def unscaled_accumulation_loss(asked: Asked, backwards: list[BackwardRan]) -> Shown:
    sums = _sums(asked, backwards)
    if not sums:
        return Shown(None, SINGLE)
    # the rest of an epoch that nobody stepped makes a window longer than the others
    sizes = Counter(len(used) for _, used in sums)
    n = max(sizes, key=lambda size: (sizes[size], size))
    window, used = next(pair for pair in sums if len(pair[1]) == n)
    step = asked.run.step(window)
    made = true_norm(used[-1].gradient_of(step.owner)) if step is not None else None
    weights = [b.factor / b.managed_division for b in used if b.factor is not None]
    total = sum(weights)
    shown = f"norm {number(made)} behind the last backward"
    if asked.wrong:
        meant = f", {number(made / total)} was meant" if made is not None and total else ""
        said = f"{n} backwards per step with weights that add up to {number(total)}: the gradient is {number(total)} × "
        return Shown(True, f"{said}that of one large batch ({shown}{meant})", marks(b for _, m in sums for b in m))
    if any(e.how in ("divide", "scale", "new", "other") for e in asked.run.happened(window, Edited)):
        return Shown(False, f"{n} backwards per step; the gradients were scaled by hand before the step")
    if len(weights) < n or any(b.mixed or b.hooked for b in used):
        return Shown(None, f"{n} backwards per step; how their losses were weighted could not be read off the graph")
    if all(normalisation(b) is Norm.SUMMED for b in used):
        return Shown(False, f"{n} backwards per step, of summed losses: they add up to the sum over all samples")
    if used[0].root.startswith("Sum"):
        of = f"summed losses of weight {number(weights[0])}"
        return Shown(None, f"{n} backwards per step, of {of}: over how many samples, a run cannot tell")
    if total > 1.05:
        # the author's own weight, or a part of the loss function (`batchmean`): it may be meant
        weight = f"with weights that add up to {number(total)}"
        return Shown(None, f"{n} backwards per step, {weight}: whether that is meant, a run cannot tell")
    return Shown(False, f"{n} backwards per step with weights that add up to {number(total)} ({shown})")


@measures("GL302")
def gradients_scaled_by_hand(asked: Asked) -> Shown:
    edits = [e for e in asked.here(Edited) if e.how == "divide"]
    if not edits:
        return Shown(False, "no gradient was divided by hand") if asked.after_fix else asked.unreached()
    most = asked.most(edits)
    if not asked.wrong:
        return Shown(False, f"divided {most} times in a window, when it was complete")
    if most < 2:
        said = "divided by the number of backwards when all were there: right, and what dividing the loss does for free"
        return Shown(True, said)
    factor = edits[0].factor
    first = f": the first micro-batch counts {number(factor**most)}, the last {number(factor)}" if factor else ""
    return Shown(True, f"divided {most} times in one window{first}")


@measures("GL304", decides=True)
def dropped_last_window(asked: Asked) -> Shown:
    run = asked.run
    ends = [t for t in run.recording.of(LoaderTurned) if t.over]
    owners = {s.owner for s in asked.here(Stepped)} or set(run.optimizers())
    left: list[tuple[LoaderTurned, int]] = []
    seen = 0
    for end in ends:
        for optimizer in sorted(owners):
            feeding = {run.statement(b.place) for w in run.full_windows(optimizer) for b in run.used(w)}
            before = [b for w in run.windows(optimizer) for b in run.happened(w, BackwardRan) if b.index < end.index]
            if not before:
                continue
            seen += 1
            window = run.window_of(before[-1], optimizer)
            step = run.step(window) if window is not None else None
            if window is None or (step is not None and step.index < end.index):
                continue
            after = [h for h in run.happened(window, Happening) if h.index > end.index]
            if after and not isinstance(after[0], BackwardRan | Zeroed):
                continue  # the rest is stepped behind the loop
            made = [b for b in run.happened(window, BackwardRan) if b.index < end.index]
            pending = [b for b in made if run.statement(b.place) in feeding]
            if pending:
                left.append((end, len(pending)))
    if left:
        unused = f"{left[0][1]} micro-batches were left unused when the loader ended"
        return Shown(True, f"{unused}, in {share(len(left), seen, 'epochs')}", marks(e for e, _ in left))
    if not seen:
        return Shown(None, f"no epoch ended in these {run.recording.steps} steps: try more --steps")
    return Shown(False, f"{share(seen, seen, 'epochs')} ended with nothing left over")


@measures("GL305", of=here(Scheduled))
def scheduler_per_micro_batch(asked: Asked, moves: list[Scheduled]) -> Shown:
    owner = next((m.owner for m in (*asked.mistaken(Scheduled), *moves) if m.owner), "")
    whose = owner or next(iter(asked.run.optimizers()), "")
    windows, steps = asked.run.full_windows(whose), asked.run.steps(whose)
    if not steps:
        return Shown(None, "the optimizer did not step")
    mine = [m for m in moves if m.owner == owner]
    within = [m for m in mine if m.index <= steps[-1].index or m in mine[: len(steps)]]
    counts = f"{len(within)} scheduler steps for {len(steps)} optimizer steps"
    if asked.wrong:
        return Shown(True, counts, marks(within))
    if sum(len(asked.run.used(w)) for w in windows) <= len(steps):
        return Shown(None, f"{SINGLE}; {counts}")
    return Shown(False, counts)


@measures("GL306", of=here(BackwardRan))
def loss_divided_twice(asked: Asked, backwards: list[BackwardRan]) -> Shown:
    managed = [b for b in backwards if b.managed_division != 1.0 and b.factor is not None]
    if not managed:
        return Shown(None, "no framework divided the loss in this run")
    twice = asked.mistaken(BackwardRan)
    if twice:
        factor = twice[0].factor or 1.0
        again = f"{twice[0].manager} divided it by {number(twice[0].managed_division)} again"
        said = f"the loss came divided by {number(1 / factor)}, and {again}"
        return Shown(True, f"{said}: gradients are {number(factor)} of what was meant")
    return Shown(False, f"only {managed[0].manager} divided the loss, by {number(managed[0].managed_division)}")


@measures("GL308", decides=True)
def accumulation_off_by_one(asked: Asked) -> Shown:
    steps = asked.here(Stepped)
    owner = steps[0].owner if steps else next(iter(asked.run.optimizers()), "")
    windows = asked.run.full_windows(owner)
    if not windows or not asked.run.ran(asked.spot):
        return asked.unreached()
    sizes = [len(asked.run.used(w)) for w in windows]
    if len(sizes) < 2 or max(sizes) < 2:
        return Shown(None, SINGLE)
    listed = ", ".join(map(str, sizes[:6])) + (", …" if len(sizes) > 6 else "")
    # the last window of an epoch may have one, too; a right loop begins with a full window
    shifted = sizes[0] == 1 and sizes[1] > 1
    first = asked.run.steps(owner)[:1] if shifted else ()
    return Shown(shifted, f"backwards in the windows: {listed}", marks(first))


# -- clearing and stepping ---------------------------------------------------------------------------------------------


@measures("GL401", of=here(BackwardRan))
def missing_zero_grad(asked: Asked, backwards: list[BackwardRan]) -> Shown:
    mine = set(marks(backwards))
    run, optimizers = asked.run, sorted({o for b in backwards for o in b.optimizers})
    later = [(o, w) for o in optimizers for w in run.full_windows(o)[1:] if any(b.index in mine for b in run.used(w))]
    stale = asked.mistaken(BackwardRan)
    if stale:
        wrong = set(marks(stale))
        windows = [(o, w) for o, w in later if any(b.index in wrong for b in run.happened(w, BackwardRan))]
        said = f"{share(len(windows), len(later), 'steps')} used old gradients as well"
        if not windows:
            return Shown(True, said)
        optimizer, window = windows[-1]
        backward = next(b for b in run.happened(window, BackwardRan) if b.index in wrong)
        old, made = _left(run, backward, optimizer), true_norm(backward.gradient_of(optimizer))
        at = f"before step {window.number + 1} a norm of {number(old)} was there already"
        return Shown(True, f"{said}: {at}, {number(made)} with the new batch")
    if not later:
        return Shown(None, "it took fewer than two steps on these gradients")
    return Shown(False, f"the gradients were cleared before each of the {len(later)} steps that followed another")


def _left(run: Run, backward: BackwardRan, optimizer: str) -> float | None:
    """The norm of what was there when the backward began: a late clip may have been at what the step left."""
    before = [h for h in run.recording.happenings if h.index < backward.index]
    return next((true_norm(g) for h in reversed(before) if (g := h.gradient_of(optimizer)) is not None), None)


@measures("GL402")
def zero_grad_in_accumulation(asked: Asked) -> Shown:
    zeros = asked.here(Zeroed)
    if not zeros and not asked.after_fix:
        return asked.unreached()
    run = asked.run
    windows = [w for o in run.optimizers() for w in run.full_windows(o)]
    sizes = [(len(run.happened(w, BackwardRan)), len(run.used(w))) for w in windows]
    most, kept = max(sizes, key=lambda size: size[0], default=(0, 0))
    if asked.wrong:
        return Shown(True, f"of {most} micro-batches {kept} reached the step, the others were cleared unused")
    if most < 2:
        return Shown(None, SINGLE)
    return Shown(False, f"all {most} micro-batches of a window reached the step")


@measures("GL403", "GL404")
def step_without_gradients(asked: Asked) -> Shown:
    """The step found nothing new: cleared before it (GL403), or not made yet (GL404)."""
    errors = asked.refused()
    if errors:
        return Shown(True, f"the scaler found no gradients and raised {exception(errors[0])}", marks(errors))
    there: list[Happening] = [*asked.here(Zeroed), *asked.here(Stepped)]
    owners = {o for h in there for o in (*h.optimizers, getattr(h, "owner", "")) if o}
    steps = [s for o in sorted(owners) for s in asked.run.steps(o) if not s.closure]
    empty = [h for h in (*asked.wrong, *asked.story) if isinstance(h, Stepped)]
    if empty:
        worst = empty[-1].used
        had = f"{worst.present} of {worst.total} parameters had a gradient" if worst is not None else "no gradients"
        moved = max((s.moved or 0.0 for s in empty), default=0.0)
        came = share(len(empty), max(len(steps), len(empty)), "steps")
        said = f"{came} came with nothing new: {had}, norm {number(true_norm(worst))}"
        return Shown(True, f"{said}; the weights moved by at most {number(moved)}", marks(empty))
    if not steps:
        return asked.unreached()
    return Shown(False, f"each of the {len(steps)} steps had the gradients of a backward")


_CALLS: tuple[type[Happening], ...] = (Zeroed, BackwardRan, Stepped, Updated, Scheduled)


def _source(run: Run, happening: Happening) -> str:
    place = happening.place
    return run.files[place.file].source(place.line) if place is not None else ""


@measures("GL405", decides=True)
def method_not_called(asked: Asked) -> Shown:
    text = asked.spot.text.partition("#")[0].strip()
    run = asked.run
    calls = [h for kind in _CALLS for h in run.recording.of(kind) if f"{text}(" in _source(run, h)]
    if asked.after_fix:
        times = f", {len(calls)} times" if calls else ""
        return Shown(False, f"it is called now{times}") if run.recording.happenings else asked.unreached()
    if not run.ran(asked.spot):
        return asked.unreached()
    elsewhere = f" here ({len(calls)} times elsewhere)" if calls else ""
    return Shown(True, f"`{text}` was never called{elsewhere} in {run.recording.steps} steps")


@measures("GL406", of=here(Scheduled))
def scheduler_before_optimizer(asked: Asked, moves: list[Scheduled]) -> Shown:
    first = moves[0]
    step = next((s for s in asked.run.recording.of(Stepped) if s.owner == first.owner or not first.owner), None)
    if step is None:
        return Shown(None, "the optimizer did not step")
    if asked.wrong:
        early = asked.mistaken(Scheduled)
        times = "once" if len(early) == 1 else f"{len(early)} times"
        said = f"the scheduler moved {times} before the first step"
        if first.rates and step.rates and first.rates[0] != step.rates[0]:
            said += f": {number(first.rates[0])} was never used, the first step used {number(step.rates[0])}"
        warned = any("lr_scheduler.step()" in w.message for w in asked.run.recording.of(Warned))
        return Shown(True, f"{said}{'; torch warned' if warned else ''}")
    used = f" with the first learning rate, {number(step.rates[0])}" if step.rates else ""
    return Shown(False, f"the first step came before the scheduler{used}")
