"""GL4: gradients that are cleared too often, too seldom, or at the wrong moment."""

from __future__ import annotations

from gradlint.runtime.evidence import shows
from gradlint.runtime.recording import BackwardRan, Happening, Scheduled, Stepped, Warned, Zeroed
from gradlint.runtime.scene import Scene, Shown, Spot, Window, marks, number, share, true_norm, unreached


@shows("GL401")
def missing_zero_grad(scene: Scene, spot: Spot) -> Shown:
    backwards = scene.at(spot, BackwardRan)
    if not backwards:
        return unreached(spot, scene.recording.steps)
    stale: list[tuple[BackwardRan, Window]] = []
    seen = 0
    for optimizer in sorted({o for b in backwards for o in b.optimizers}):
        for window in scene.full_windows(optimizer)[1:]:
            first = next(iter(window.of(BackwardRan)), None)
            if first is None or first not in backwards:
                continue
            seen += 1
            if not window.before(first, Zeroed) and _was_there(scene, window):
                stale.append((first, window))
    if not seen:
        return Shown(None, "it took fewer than two steps on these gradients")
    if not stale:
        return Shown(False, f"the gradients were cleared before each of the {seen} backwards that followed a step")
    backward, window = stale[-1]
    there = scene.windows(window.optimizer)[window.number - 1].step
    old = true_norm(there.before_of(window.optimizer)) if there is not None else None
    made = true_norm(backward.gradient_of(window.optimizer))
    said = f"{share(len(stale), seen, 'steps')} used old gradients as well"
    at = f"before step {window.number + 1} a norm of {number(old)} was there already, {number(made)} with the new batch"
    return Shown(True, f"{said}: {at}", marks(b for b, _ in stale))


def _was_there(scene: Scene, window: Window) -> bool:
    """The step before had gradients to leave behind."""
    before = scene.windows(window.optimizer)[window.number - 1].step
    left = before.before_of(window.optimizer) if before is not None else None
    return left is None or left.present > 0


@shows("GL402")
def zero_grad_in_accumulation(scene: Scene, spot: Spot) -> Shown:
    zeros = scene.at(spot, Zeroed)
    lost: list[Zeroed] = []
    kept_of: list[tuple[int, int]] = []
    for optimizer in scene.optimizers():
        for window in scene.full_windows(optimizer):
            backwards = window.of(BackwardRan)
            mine = [z for z in window.of(Zeroed) if z in zeros]
            wasted = [z for z in mine if window.before(z, BackwardRan) and window.after(z, BackwardRan)]
            lost += wasted
            if backwards:
                last = max((z.index for z in wasted), default=-1)
                kept_of.append((sum(b.index > last for b in backwards), len(backwards)))
    if not zeros and spot.line is not None:
        return unreached(spot, scene.recording.steps)
    kept, most = max(kept_of, key=lambda pair: pair[1], default=(0, 0))
    if lost:
        return Shown(
            True, f"of {most} micro-batches {kept} reached the step, the others were cleared unused", marks(lost)
        )
    if most < 2:
        return Shown(None, "no window of this run had more than one backward")
    return Shown(False, f"all {most} micro-batches of a window reached the step")


@shows("GL403", "GL404")
def step_without_gradients(scene: Scene, spot: Spot) -> Shown:
    """The step found nothing new: cleared before it (GL403), or not made yet (GL404)."""
    there: list[Happening] = [*scene.at(spot, Zeroed), *scene.at(spot, Stepped)]
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


def _nothing_to_use(window: Window, step: Stepped) -> bool:
    backwards = window.before(step, BackwardRan)
    if not backwards:
        return True
    return any(z.index > backwards[-1].index for z in window.before(step, Zeroed)) and _is_empty(step)


def _is_empty(step: Stepped) -> bool:
    gradient = step.before_of(step.owner)
    return gradient is None or not gradient.present or gradient.norm == 0


@shows("GL405")
def method_not_called(scene: Scene, spot: Spot) -> Shown:
    kinds: dict[str, type[Happening]] = {"zero_grad": Zeroed, "backward": BackwardRan, "step": Stepped}
    if spot.line is None:
        return Shown(False, "it is called now") if scene.recording.happenings else unreached(spot, 0)
    text = scene.files[spot.file].source(spot.line).partition("#")[0].strip()
    word = text.rpartition(".")[2]
    if not scene.ran(spot):
        return unreached(spot, scene.recording.steps)
    kind = kinds.get(word)
    count = sum(1 for _ in scene.recording.of(kind)) if kind is not None else 0
    elsewhere = f" ({count} calls elsewhere)" if count else ""
    return Shown(True, f"`{text}` was never called in {scene.recording.steps} steps{elsewhere}")


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
