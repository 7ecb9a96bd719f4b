"""GL4: gradients that are cleared too often, too seldom, or at the wrong moment."""

from __future__ import annotations

from gradlint.runtime.measure import Asked, judges, measures
from gradlint.runtime.recording import (
    BackwardRan,
    Happening,
    Scheduled,
    Stepped,
    Updated,
    Warned,
    Zeroed,
)
from gradlint.runtime.scene import Scene, Shown, exception, marks, number, share, true_norm


@measures("GL401")
def missing_zero_grad(asked: Asked) -> Shown:
    backwards = asked.here(BackwardRan)
    if not backwards:
        return asked.unreached()
    mine = set(marks(backwards))
    optimizers = sorted({o for b in backwards for o in b.optimizers})
    later = [w for o in optimizers for w in asked.scene.full_windows(o)[1:] if any(b.index in mine for b in w.used())]
    stale = asked.mistaken(BackwardRan)
    if stale:
        windows = [w for w in later if any(b.index in marks(stale) for b in w.of(BackwardRan))]
        said = f"{share(len(windows), len(later), 'steps')} used old gradients as well"
        if not windows:
            return Shown(True, said)
        window = windows[-1]
        backward = next(b for b in window.of(BackwardRan) if b.index in marks(stale))
        old, made = _left(asked.scene, backward, window.optimizer), true_norm(backward.gradient_of(window.optimizer))
        at = f"before step {window.number + 1} a norm of {number(old)} was there already"
        return Shown(True, f"{said}: {at}, {number(made)} with the new batch")
    if not later:
        return Shown(None, "it took fewer than two steps on these gradients")
    return Shown(False, f"the gradients were cleared before each of the {len(later)} steps that followed another")


def _left(scene: Scene, backward: BackwardRan, optimizer: str) -> float | None:
    """The norm of what was there when the backward began: a late clip may have been at what the step left."""
    before = [h for h in scene.recording.happenings if h.index < backward.index]
    return next((true_norm(g) for h in reversed(before) if (g := h.gradient_of(optimizer)) is not None), None)


@measures("GL402")
def zero_grad_in_accumulation(asked: Asked) -> Shown:
    zeros = asked.here(Zeroed)
    if not zeros and not asked.after_fix:
        return asked.unreached()
    windows = [w for o in asked.scene.optimizers() for w in asked.scene.full_windows(o)]
    window = max(windows, key=lambda w: len(w.of(BackwardRan)), default=None)
    most, kept = (len(window.of(BackwardRan)), len(window.used())) if window is not None else (0, 0)
    if asked.wrong:
        return Shown(True, f"of {most} micro-batches {kept} reached the step, the others were cleared unused")
    if most < 2:
        return Shown(None, "no window of this run had more than one backward")
    return Shown(False, f"all {most} micro-batches of a window reached the step")


@measures("GL403", "GL404")
def step_without_gradients(asked: Asked) -> Shown:
    """The step found nothing new: cleared before it (GL403), or not made yet (GL404)."""
    errors = asked.refused()
    if errors:
        return Shown(True, f"the scaler found no gradients and raised {exception(errors[0])}", marks(errors))
    there: list[Happening] = [*asked.here(Zeroed), *asked.here(Stepped)]
    owners = {o for h in there for o in (*h.optimizers, getattr(h, "owner", "")) if o}
    steps = [w.step for o in sorted(owners) for w in asked.scene.full_windows(o) if w.step and not w.step.closure]
    empty = [h for h in (*asked.wrong, *asked.story) if isinstance(h, Stepped)]
    if empty:
        worst = empty[-1].before_of(empty[-1].owner)
        had = f"{worst.present} of {worst.total} parameters had a gradient" if worst is not None else "no gradients"
        moved = max((s.moved or 0.0 for s in empty), default=0.0)
        came = share(len(empty), max(len(steps), len(empty)), "steps")
        said = f"{came} came with nothing new: {had}, norm {number(true_norm(worst))}"
        return Shown(True, f"{said}; the weights moved by at most {number(moved)}", marks(empty))
    if not steps:
        return asked.unreached()
    return Shown(False, f"each of the {len(steps)} steps had the gradients of a backward")


_CALLS: tuple[type[Happening], ...] = (Zeroed, BackwardRan, Stepped, Updated, Scheduled)


def _source(scene: Scene, happening: Happening) -> str:
    place = happening.place
    return scene.files[place.file].source(place.line) if place is not None else ""


@judges("GL405")
def method_not_called(asked: Asked) -> Shown:
    text = asked.spot.text.partition("#")[0].strip()
    scene = asked.scene
    calls = [h for kind in _CALLS for h in scene.recording.of(kind) if f"{text}(" in _source(scene, h)]
    if asked.after_fix:
        times = f", {len(calls)} times" if calls else ""
        return Shown(False, f"it is called now{times}") if scene.recording.happenings else asked.unreached()
    if not scene.ran(asked.spot):
        return asked.unreached()
    elsewhere = f" here ({len(calls)} times elsewhere)" if calls else ""
    return Shown(True, f"`{text}` was never called{elsewhere} in {scene.recording.steps} steps")


@measures("GL406")
def scheduler_before_optimizer(asked: Asked) -> Shown:
    moves = asked.here(Scheduled)
    if not moves:
        return asked.unreached()
    first = moves[0]
    step = next((s for s in asked.scene.recording.of(Stepped) if s.owner == first.owner or not first.owner), None)
    if step is None:
        return Shown(None, "the optimizer did not step")
    if asked.wrong:
        early = asked.mistaken(Scheduled)
        times = "once" if len(early) == 1 else f"{len(early)} times"
        said = f"the scheduler moved {times} before the first step"
        if first.rates and step.rates and first.rates[0] != step.rates[0]:
            said += f": {number(first.rates[0])} was never used, the first step used {number(step.rates[0])}"
        warned = any("lr_scheduler.step()" in w.message for w in asked.scene.recording.of(Warned))
        return Shown(True, f"{said}{'; torch warned' if warned else ''}")
    used = f" with the first learning rate, {number(step.rates[0])}" if step.rates else ""
    return Shown(False, f"the first step came before the scheduler{used}")
