"""GL4: gradients that are cleared too often, too seldom, or at the wrong moment."""

from __future__ import annotations

from gradlint.runtime.evidence import shows
from gradlint.runtime.recording import (
    BackwardRan,
    Edited,
    Happening,
    Raised,
    Scheduled,
    Stepped,
    Updated,
    Warned,
    Zeroed,
)
from gradlint.runtime.scene import Scene, Shown, Spot, Window, exception, marks, number, share, true_norm, unreached


@shows("GL401")
def missing_zero_grad(scene: Scene, spot: Spot) -> Shown:
    backwards = scene.at(spot, BackwardRan)
    if not backwards:
        return unreached(spot, scene.recording.steps)
    stale: list[tuple[BackwardRan, Window]] = []
    seen = 0
    asked = set(marks(backwards))
    for optimizer in sorted({o for b in backwards for o in b.optimizers}):
        for window in scene.full_windows(optimizer)[1:]:
            mine = [b for b in window.used() if b.index in asked]
            if not mine:
                continue
            seen += 1
            if not window.clearings() and _was_there(scene, window):
                stale.append((mine[0], window))
    if not seen:
        return Shown(None, "it took fewer than two steps on these gradients")
    if not stale:
        return Shown(False, f"the gradients were cleared before each of the {seen} steps that followed another")
    if all(_left(scene, window, backward) == 0 for backward, window in stale):
        return Shown(None, f"the gradients were never cleared, but all that was left of them in {seen} steps was 0")
    backward, window = stale[-1]
    old = _left(scene, window, backward)
    made = true_norm(backward.gradient_of(window.optimizer))
    said = f"{share(len(stale), seen, 'steps')} used old gradients as well"
    at = f"before step {window.number + 1} a norm of {number(old)} was there already, {number(made)} with the new batch"
    return Shown(True, f"{said}: {at}", marks(b for b, _ in stale))


def _was_there(scene: Scene, window: Window) -> bool:
    """The step before had gradients to leave behind."""
    before = scene.windows(window.optimizer)[window.number - 1].step
    left = before.before_of(window.optimizer) if before is not None else None
    return left is None or left.present > 0


def _left(scene: Scene, window: Window, backward: BackwardRan) -> float | None:
    """The norm of what the step before left, as it was when the backward began: a late clip may have been at it."""
    before = scene.windows(window.optimizer)[window.number - 1].step
    since = [h for h in window.happenings if h.index < backward.index]
    told = [g for h in (before, *since) if h is not None and (g := h.gradient_of(window.optimizer)) is not None]
    if told:
        return true_norm(told[-1])
    return true_norm(before.before_of(window.optimizer)) if before is not None else None


@shows("GL402")
def zero_grad_in_accumulation(scene: Scene, spot: Spot) -> Shown:
    zeros = scene.at(spot, Zeroed)
    asked = set(marks(zeros))
    lost: list[Zeroed] = []
    kept_of: list[tuple[int, int]] = []
    for optimizer in scene.optimizers():
        for window in scene.full_windows(optimizer):
            backwards = window.of(BackwardRan)
            wasted = [z for z in window.clearings() if z.index in asked and _goes_on(scene, window, z)]
            wasted = [z for z in wasted if not _used_by_another(scene, window, z)]
            lost += wasted
            if backwards:
                last = max((z.index for z in wasted), default=-1)
                kept_of.append((sum(b.index > last for b in backwards), len(backwards)))
    if not zeros and spot.line is not None:
        return unreached(spot, scene.recording.steps)
    kept, most = max(kept_of, key=lambda pair: pair[1], default=(0, 0))
    if lost and sum(all_ == 1 for _, all_ in kept_of) > len(kept_of) / 2:
        return Shown(None, "most steps follow one backward: the others were left out, not added up")
    if lost and _kept_elsewhere(scene):
        return Shown(None, "gradients were written by hand before the steps: what was cleared may be a part of them")
    if lost:
        return Shown(
            True, f"of {most} micro-batches {kept} reached the step, the others were cleared unused", marks(lost)
        )
    if most < 2:
        return Shown(None, "no window of this run had more than one backward")
    return Shown(False, f"all {most} micro-batches of a window reached the step")


def _used_by_another(scene: Scene, window: Window, zero: Zeroed) -> bool:
    """Another optimizer of the same parameters took a step with these very gradients."""
    told = [g for h in window.happenings if h.index < zero.index and (g := h.gradient_of(window.optimizer)) is not None]
    made = max((b.index for b in window.before(zero, BackwardRan)), default=-1)
    steps = [s for s in scene.recording.of(Stepped) if made < s.index < zero.index and s.owner != window.optimizer]
    used = [g for s in steps if (g := s.before_of(s.owner)) is not None]
    return any((g.norm, g.present, g.total) == (told[-1].norm, told[-1].present, told[-1].total) for g in used if told)


def _kept_elsewhere(scene: Scene) -> bool:
    """Each step used gradients that the user's code had put there: buffers of its own may hold the others."""
    windows = [w for optimizer in scene.optimizers() for w in scene.full_windows(optimizer)]
    return all(any(e.how == "other" and _since_cleared(w, e) for e in w.of(Edited)) for w in windows)


def _since_cleared(window: Window, edit: Edited) -> bool:
    return edit.index > max((z.index for z in window.clearings()), default=-1)


def _goes_on(scene: Scene, window: Window, zero: Zeroed) -> bool:
    """The same backward comes before the clearing and behind it; another loss may well end with its own."""
    before, after = window.before(zero, BackwardRan), window.after(zero, BackwardRan)
    return bool({scene.statement(b) for b in before} & {scene.statement(b) for b in after})


@shows("GL403", "GL404")
def step_without_gradients(scene: Scene, spot: Spot) -> Shown:
    """The step found nothing new: cleared before it (GL403), or not made yet (GL404)."""
    there: list[Happening] = [*scene.at(spot, Zeroed), *scene.at(spot, Stepped)]
    errors = _refused(scene, spot)
    if errors:
        return Shown(True, f"the scaler found no gradients and raised {exception(errors[0])}", marks(errors))
    if not there:
        return unreached(spot, scene.recording.steps)
    owners = {o for h in there for o in (*h.optimizers, getattr(h, "owner", "")) if o}
    empty: list[Stepped] = []
    steps = 0
    for optimizer in sorted(owners):
        for window in scene.full_windows(optimizer):
            step = window.step
            if step is None or step.closure:
                continue
            steps += 1
            if _nothing_to_use(window, step):
                empty.append(step)
    if not steps:
        return unreached(spot, scene.recording.steps)
    if not empty:
        return Shown(False, f"each of the {steps} steps had the gradients of a backward")
    worst = empty[-1].before_of(empty[-1].owner)
    had = f"{worst.present} of {worst.total} parameters had a gradient" if worst is not None else "no gradients"
    moved = max((s.moved or 0.0 for s in empty), default=0.0)
    said = f"{share(len(empty), steps, 'steps')} came with nothing new: {had}, norm {number(true_norm(worst))}"
    return Shown(True, f"{said}; the weights moved by at most {number(moved)}", marks(empty))


def _refused(scene: Scene, spot: Spot) -> list[Raised]:
    """Steps of a scaler that raised for want of gradients: at the place, or behind the clearing that is there."""
    words = ("No inf checks were recorded for this optimizer", "Attempted step but _scale is None")
    errors = [e for e in scene.recording.of(Raised) if any(w in e.message for w in words)]
    if spot.line is None:
        return errors
    here, zeros = scene.at(spot, Raised), scene.at(spot, Zeroed)
    made = [b.index for b in scene.recording.of(BackwardRan)]
    found: list[Raised] = []
    for error in errors:
        cleared = max((z.index for z in zeros if z.index < error.index), default=error.index)
        if error in here or (cleared < error.index and not any(cleared < b < error.index for b in made)):
            found.append(error)
    return found


def _nothing_to_use(window: Window, step: Stepped) -> bool:
    backwards = window.before(step, BackwardRan)
    if not backwards:  # they may be the user's own work: `p.grad = g`
        return not any(e.how == "other" for e in window.before(step, Edited)) or _is_empty(step)
    return any(z.index > backwards[-1].index for z in window.before(step, Zeroed)) and _is_empty(step)


def _is_empty(step: Stepped) -> bool:
    gradient = step.before_of(step.owner)
    return gradient is None or not gradient.present or gradient.norm == 0


_CALLS: tuple[type[Happening], ...] = (Zeroed, BackwardRan, Stepped, Updated, Scheduled)


def _source(scene: Scene, happening: Happening) -> str:
    place = happening.place
    return scene.files[place.file].source(place.line) if place is not None else ""


@shows("GL405")
def method_not_called(scene: Scene, spot: Spot) -> Shown:
    text = spot.text.partition("#")[0].strip()
    calls = [h for kind in _CALLS for h in scene.recording.of(kind) if f"{text}(" in _source(scene, h)]
    if spot.line is None:
        times = f", {len(calls)} times" if calls else ""
        return Shown(False, f"it is called now{times}") if scene.recording.happenings else unreached(spot, 0)
    if not scene.ran(spot):
        return unreached(spot, scene.recording.steps)
    elsewhere = f" here ({len(calls)} times elsewhere)" if calls else ""
    return Shown(True, f"`{text}` was never called{elsewhere} in {scene.recording.steps} steps")


@shows("GL406")
def scheduler_before_optimizer(scene: Scene, spot: Spot) -> Shown:
    moves = scene.at(spot, Scheduled)
    if not moves:
        return unreached(spot, scene.recording.steps)
    first = moves[0]
    step = next((s for s in scene.recording.of(Stepped) if s.owner == first.owner or not first.owner), None)
    if step is None:
        return Shown(None, "the optimizer did not step")
    warned = any("lr_scheduler.step()" in w.message for w in scene.recording.of(Warned))
    early = [m for m in moves if m.index < step.index]
    if early:
        times = "once" if len(early) == 1 else f"{len(early)} times"
        said = f"the scheduler moved {times} before the first step"
        if first.rates and step.rates and first.rates[0] != step.rates[0]:
            said += f": {number(first.rates[0])} was never used, the first step used {number(step.rates[0])}"
        return Shown(True, f"{said}{'; torch warned' if warned else ''}", marks(early))
    used = f" with the first learning rate, {number(step.rates[0])}" if step.rates else ""
    return Shown(False, f"the first step came before the scheduler{used}")
