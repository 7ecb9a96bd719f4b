"""GL3: how many backwards a step adds up, and what each of them weighs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gradlint.events import Norm
from gradlint.runtime.evidence import shows
from gradlint.runtime.recording import BackwardRan, Edited, LoaderTurned, Scheduled, Stepped, Zeroed
from gradlint.runtime.replay import normalisation
from gradlint.runtime.scene import Scene, Shown, Spot, Window, marks, number, share, true_norm, unreached

_SINGLE = "no window of this run had more than one backward"


def _sums(scene: Scene, backwards: list[BackwardRan]) -> Iterator[tuple[Window, list[BackwardRan]]]:
    """The full windows that add up several of these backwards."""
    asked = set(marks(backwards))
    for optimizer in sorted({o for b in backwards for o in b.optimizers}):
        for window in scene.full_windows(optimizer):
            mine = [b for b in window.used() if b.index in asked]
            if len(mine) > 1:
                yield window, mine


@shows("GL301")
def unscaled_accumulation_loss(scene: Scene, spot: Spot) -> Shown:
    backwards = scene.at(spot, BackwardRan)
    if not backwards:
        return unreached(spot, scene.recording.steps)
    sums = list(_sums(scene, backwards))
    if not sums:
        return Shown(None, _SINGLE)
    # the rest of an epoch that nobody stepped makes a window longer than the others
    sizes = Counter(len(m) for _, m in sums)
    n = max(sizes, key=lambda size: (sizes[size], size))
    window, mine = next(pair for pair in sums if len(pair[1]) == n)
    made = true_norm(mine[-1].gradient_of(window.optimizer))
    factors = [b.factor for b in mine]
    weights = [f / b.managed_division for f, b in zip(factors, mine, strict=True) if f is not None]
    if any(e.how in ("divide", "scale", "other") for e in window.of(Edited)):
        return Shown(False, f"{n} backwards per step; the gradients were scaled by hand before the step")
    if len(weights) < n or any(b.mixed for b in mine):
        return Shown(None, f"{n} backwards per step; how their losses were weighted could not be read off the graph")
    total = sum(weights)
    shown = f"norm {number(made)} behind the last backward"
    if all(normalisation(b) is Norm.SUMMED for b in mine):
        return Shown(False, f"{n} backwards per step, of summed losses: they add up to the sum over all samples")
    odd = next((b.root for b in mine if not _is_mean(b)), "")
    if odd.startswith("Sum"):
        of = f"summed losses of weight {number(weights[0])}"
        return Shown(None, f"{n} backwards per step, of {of}: over how many samples, a run cannot tell")
    if total > 1.05 and odd:
        return Shown(None, f"{n} backwards per step; whether `{odd}` makes a mean, a run cannot tell")
    if total > 1.05 and _equal(weights) and weights[0] <= 0.99:
        # the author's own weight, or a part of the loss function (`batchmean`): it may be meant
        weight = f"each of weight {number(weights[0])}, together {number(total)}"
        return Shown(None, f"{n} backwards per step, {weight}: whether that is meant, a run cannot tell")
    if total > 1.05 and (_equal(weights) or _counted(weights)):
        meant = f", {number(made / total)} was meant" if made is not None else ""
        said = (
            f"{n} backwards per step with weights that add up to {number(total)}: "
            f"the gradient is {number(total)} × that of one large batch ({shown}{meant})"
        )
        return Shown(True, said, marks(b for _, m in sums for b in m))
    return Shown(False, f"{n} backwards per step with weights that add up to {number(total)} ({shown})")


def _is_mean(ran: BackwardRan) -> bool:
    """The loss proper is known to be a mean; of several added up that is taken for granted."""
    return ran.root.startswith(("Mean", "Add", "BinaryCrossEntropy", "CrossEntropy")) or (
        "Loss" in ran.root and not ran.root.startswith("Sum")
    )


def _equal(weights: list[float]) -> bool:
    return max(weights) - min(weights) < 1e-6


def _counted(weights: list[float]) -> bool:
    """1, 1/2, 1/3 …: the running counter instead of N."""
    return all(abs(w * (i + 1) - 1) < 1e-3 for i, w in enumerate(weights))


@shows("GL302")
def gradients_scaled_by_hand(scene: Scene, spot: Spot) -> Shown:
    edits = [e for e in scene.at(spot, Edited) if e.how == "divide"]
    if not edits:
        if spot.line is None:
            return Shown(False, "no gradient was divided by hand")
        return unreached(spot, scene.recording.steps)
    early: list[Edited] = []
    whole: list[Edited] = []
    most = 0
    for optimizer in sorted({o for e in edits for o in e.optimizers}):
        for window in scene.full_windows(optimizer):
            mine = [e for e in window.of(Edited) if e in edits]
            most = max(most, len(mine))
            early += [e for e in mine if window.after(e, BackwardRan)]
            whole += [e for e in mine if not window.after(e, BackwardRan) and _averages(window, e)]
    if early:
        factor = early[0].factor
        first = f": the first micro-batch counts {number(factor**most)}, the last {number(factor)}" if factor else ""
        return Shown(True, f"divided {most} times in one window{first}", marks(early))
    if whole:
        said = "divided by the number of backwards when all were there: right, and what dividing the loss does for free"
        return Shown(True, said, marks(whole))
    return Shown(False, f"divided {most} times in a window, when it was complete")


def _averages(window: Window, edit: Edited) -> bool:
    """By the number of backwards; a division by anything else (the tokens of the window) has reasons of its own."""
    count = len(window.used())
    return count > 1 and edit.factor is not None and abs(edit.factor * count - 1) < 1e-3


@shows("GL304")
def dropped_last_window(scene: Scene, spot: Spot) -> Shown:
    steps = scene.at(spot, Stepped)
    ends = [t for t in scene.recording.of(LoaderTurned) if t.over]
    owners = {s.owner for s in steps} or set(scene.optimizers())
    left: list[tuple[LoaderTurned, int]] = []
    asked = 0
    for end in ends:
        for optimizer in sorted(owners):
            feeding = {scene.statement(b) for w in scene.full_windows(optimizer) for b in w.used()}
            before = [b for b in scene.recording.of(BackwardRan) if b.index < end.index and optimizer in b.optimizers]
            if not before:
                continue
            asked += 1
            window = scene.window_of(before[-1], optimizer)
            if window is None or (window.step is not None and window.step.index < end.index):
                continue
            after = [h for h in window.happenings if h.index > end.index]
            if after and not isinstance(after[0], BackwardRan | Zeroed):
                continue  # the rest is stepped behind the loop
            pending = [b for b in window.of(BackwardRan) if b.index < end.index and scene.statement(b) in feeding]
            if pending:
                left.append((end, len(pending)))
    if left:
        said = (
            f"{left[0][1]} micro-batches were left unused when the loader ended, in {share(len(left), asked, 'epochs')}"
        )
        return Shown(True, said, marks(e for e, _ in left))
    if not asked:
        return Shown(None, f"no epoch ended in these {scene.recording.steps} steps: try more --steps")
    return Shown(False, f"{share(asked, asked, 'epochs')} ended with nothing left over")


@shows("GL305")
def scheduler_per_micro_batch(scene: Scene, spot: Spot) -> Shown:
    moves = scene.at(spot, Scheduled)
    if not moves:
        return unreached(spot, scene.recording.steps)
    shown = [
        _moves_per_step(scene, owner, [m for m in moves if m.owner == owner])
        for owner in dict.fromkeys(m.owner for m in moves)
    ]
    return next((s for s in shown if s.holds), None) or next((s for s in shown if s.holds is False), shown[0])


def _moves_per_step(scene: Scene, owner: str, moves: list[Scheduled]) -> Shown:
    windows = scene.full_windows(owner or next(iter(scene.optimizers()), ""))
    steps = [w.step for w in windows if w.step is not None]
    if not steps:
        return Shown(None, "the optimizer did not step")
    within = [m for m in moves if m.index <= steps[-1].index or m in moves[: len(steps)]]
    ratio = len([m for m in within if m.index < steps[-1].index]) / len(steps)
    counts = f"{len(within)} scheduler steps for {len(steps)} optimizer steps"
    if sum(len(w.used()) for w in windows) <= len(steps):
        return Shown(None, f"{_SINGLE}; {counts}")
    return Shown(ratio > 1.2, counts, marks(within) if ratio > 1.2 else ())


@shows("GL306")
def loss_divided_twice(scene: Scene, spot: Spot) -> Shown:
    backwards = scene.at(spot, BackwardRan) or (list(scene.recording.of(BackwardRan)) if spot.line is None else [])
    if not backwards:
        return unreached(spot, scene.recording.steps)
    managed = [b for b in backwards if b.managed_division != 1.0 and b.factor is not None]
    if not managed:
        return Shown(None, "no framework divided the loss in this run")
    twice = [b for b in managed if b.factor is not None and 0 < b.factor < 0.99]
    if twice:
        b = twice[0]
        factor = b.factor or 1.0
        again = f"{b.manager} divided it by {number(b.managed_division)} again"
        said = f"the loss came divided by {number(1 / factor)}, and {again}"
        return Shown(True, f"{said}: gradients are {number(factor)} of what was meant", marks(twice))
    b = managed[0]
    return Shown(False, f"only {b.manager} divided the loss, by {number(b.managed_division)}")


@shows("GL308")
def accumulation_off_by_one(scene: Scene, spot: Spot) -> Shown:
    steps = scene.at(spot, Stepped)
    owner = steps[0].owner if steps else next(iter(scene.optimizers()), "")
    windows = scene.full_windows(owner)
    if not windows or not scene.ran(spot):
        return unreached(spot, scene.recording.steps)
    sizes = [len(w.used()) for w in windows]
    if len(sizes) < 2 or max(sizes) < 2:
        return Shown(None, _SINGLE)
    listed = ", ".join(map(str, sizes[:6])) + (", …" if len(sizes) > 6 else "")
    # the last window of an epoch may have one, too; a right loop begins with a full window
    shifted = sizes[0] == 1 and sizes[1] > 1
    return Shown(shifted, f"backwards in the windows: {listed}", marks(windows[0].of(Stepped)) if shifted else ())
