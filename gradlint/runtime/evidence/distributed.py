"""GL5: how often the ranks exchanged gradients, and whether they still agree."""

from __future__ import annotations

from gradlint.runtime.evidence import shows
from gradlint.runtime.recording import BackwardRan, Clipped, Edited, Stepped
from gradlint.runtime.scene import Scene, Shown, Spot, Window, marks, number, share, unreached


def _distributed(scene: Scene) -> bool:
    return any(b.wrap for b in scene.recording.of(BackwardRan))


_ALONE = "no distributed model trained in this run: try --nproc 2"


def _exchanges(window: Window) -> tuple[int, int]:
    """Backwards of a window, and how many of them exchanged gradients."""
    backwards = [b for b in window.of(BackwardRan) if b.wrap]
    return len(backwards), sum(b.syncs > 0 for b in backwards)


def apart(scene: Scene, owner: str) -> float | None:
    """How far the ranks' weights are apart after their last common step, in lengths of the weights."""
    states = [{s.number: s.weights for s in r.of(Stepped) if s.owner == owner and s.weights} for r in scene.ranks]
    common = set.intersection(*(set(s) for s in states)) if states else set()
    if len(states) < 2 or not common:
        return None
    last = max(common)
    weights = [w for s in states if (w := s[last]) is not None]
    norm = max(abs(w[0]) for w in weights) or 1.0
    spread = max(max(w[i] for w in weights) - min(w[i] for w in weights) for i in (0, 1))
    return spread / norm


def _agreement(scene: Scene, owner: str) -> str:
    difference = apart(scene, owner)
    if difference is None:  # of sharded models each rank holds other weights
        return "one rank only" if len(scene.ranks) < 2 else "the ranks hold different shards"
    return "the ranks agree" if difference < 1e-6 else f"the ranks' weights differ by {number(difference)}"


def _counted(exchanges: int) -> str:
    return "1 exchange of gradients" if exchanges == 1 else f"{exchanges} exchanges of gradients"


def _busiest(scene: Scene) -> str:
    return next(iter(scene.optimizers()), "")


def _per_update(scene: Scene, owner: str) -> tuple[int, int]:
    """Of the largest window: backwards, and exchanges."""
    return max((_exchanges(w) for w in scene.full_windows(owner)), default=(0, 0))


@shows("GL501", "GL502")
def needless_exchanges(scene: Scene, spot: Spot) -> Shown:
    if not _distributed(scene):
        return Shown(None, _ALONE) if scene.ran(spot) or spot.line is None else unreached(spot, scene.recording.steps)
    if not scene.ran(spot):
        return unreached(spot, scene.recording.steps)
    owner = _busiest(scene)
    backwards, exchanges = _per_update(scene, owner)
    if backwards < 2:
        return Shown(None, "no window of this run had more than one backward")
    said = f"{_counted(exchanges)} per update for {backwards} micro-batches; {_agreement(scene, owner)}"
    needless = [b for w in scene.full_windows(owner) for b in w.of(BackwardRan)[:-1] if b.syncs]
    holds = exchanges > 1 or bool((difference := apart(scene, owner)) and difference >= 1e-6)
    return Shown(holds, said, marks(needless) if holds else ())


@shows("GL503")
def no_sync_on_boundary(scene: Scene, spot: Spot) -> Shown:
    if not _distributed(scene):
        return Shown(None, _ALONE) if scene.ran(spot) or spot.line is None else unreached(spot, scene.recording.steps)
    if not scene.ran(spot):
        return unreached(spot, scene.recording.steps)
    owner = _busiest(scene)
    silent: list[BackwardRan] = []
    windows = scene.full_windows(owner)
    for window in windows:
        backwards = [b for b in window.of(BackwardRan) if b.wrap]
        if backwards and not backwards[-1].syncs and not any(e.how == "reduce" for e in window.of(Edited)):
            silent.append(backwards[-1])
    backwards_, exchanges = _per_update(scene, owner)
    said = f"{_counted(exchanges)} per update for {backwards_} micro-batches; {_agreement(scene, owner)}"
    if silent:
        return Shown(
            True,
            f"{share(len(silent), len(windows), 'steps')} used gradients of this rank alone: {said}",
            marks(silent),
        )
    return Shown(False, said)


@shows("GL504")
def manual_gradient_sync(scene: Scene, spot: Spot) -> Shown:
    edits = [e for e in scene.at(spot, Edited) if e.how == "reduce"]
    owner = _busiest(scene)
    if not edits:
        if spot.line is None:
            return Shown(False, f"only DDP exchanges gradients; {_agreement(scene, owner)}")
        return unreached(spot, scene.recording.steps)
    again: list[Edited] = []
    for edit in edits:
        for optimizer in edit.optimizers:
            window = scene.window_of(edit, optimizer)
            made = window.before(edit, BackwardRan) if window is not None else []
            if made and made[-1].syncs:
                again.append(edit)
                break
    if again:
        before, after = again[0].before, again[0].gradients
        grown = f": norm {number(before[0].norm)} → {number(after[0].norm)}" if before and after else ""
        return Shown(
            True,
            f"{share(len(again), len(edits), 'calls')} reduced gradients that DDP had averaged already{grown}",
            marks(again),
        )
    return Shown(False, f"{share(len(edits), len(edits), 'calls')} reduced local gradients")


@shows("GL505")
def fsdp_clip(scene: Scene, spot: Spot) -> Shown:
    clips = scene.at(spot, Clipped)
    if not clips:
        return unreached(spot, scene.recording.steps)
    sharded = [c for c in clips if c.wrap == "FullyShardedDataParallel" and "." not in c.function]
    place = clips[0].place
    norms = [
        next((c.returned for c in r.of(Clipped) if c.place and place and c.place.line == place.line), None)
        for r in scene.ranks
    ]
    listed = " and ".join(number(n) for n in norms)
    if not any(c.wrap for c in clips):
        return Shown(None, _ALONE)
    if sharded:
        return Shown(True, f"each rank clipped by its own shard's norm: {listed}", marks(sharded))
    return Shown(False, f"all ranks clipped by the same norm: {listed}")
