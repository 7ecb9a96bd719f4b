"""GL1: what a clip saw, and what the step used."""

from __future__ import annotations

from gradlint.runtime.evidence import shows
from gradlint.runtime.recording import BackwardRan, Clipped, Edited, Stepped, Zeroed
from gradlint.runtime.scene import Scene, Shown, Spot, Window, marks, number, share, true_norm, unreached


def _clips(scene: Scene, spot: Spot) -> list[Clipped]:
    return [c for c in scene.at(spot, Clipped) if not c.exhausted]


def _window(scene: Scene, clip: Clipped) -> Window | None:
    """Of the first optimizer whose gradients it clipped."""
    return next((w for o in clip.optimizers if (w := scene.window_of(clip, o)) is not None), None)


def _last_step(scene: Scene, clip: Clipped) -> Stepped | None:
    """The step that was taken since the last backward; None if there was a backward since, or no step at all."""
    window = _window(scene, clip)
    if window is None or window.before(clip, BackwardRan) or not window.number:
        return None
    return scene.windows(window.optimizer)[window.number - 1].step


def _used(step: Stepped | None) -> float | None:
    """The true norm of what a step used."""
    return true_norm(step.before_of(step.owner)) if step is not None else None


def _norms_at_step(scene: Scene, optimizers: list[str]) -> str:
    """`norm at the step 85.1 (largest of 8)`, in true units."""
    used = [n for o in optimizers for w in scene.full_windows(o) if (n := _used(w.step)) is not None]
    return f"largest norm at a step {number(max(used))}" if used else "no step was taken"


@shows("GL101")
def clip_after_step(scene: Scene, spot: Spot) -> Shown:
    clips = _clips(scene, spot)
    if not clips:
        return unreached(spot, scene.recording.steps)
    late = [(c, s) for c in clips if (s := _last_step(scene, c)) is not None and not _is_early(scene, c, s)]
    if late:
        clip, step = max(late, key=lambda pair: _used(pair[1]) or 0.0)
        said = (
            f"{share(len(late), len(clips), 'clips')} came after the step: it used a norm of {number(_used(step))}, "
            f"the limit is {number(clip.limit)}"
        )
        return Shown(True, said, marks(c for c, _ in late))
    optimizers = sorted({o for c in clips for o in c.optimizers})
    said = f"{share(len(clips), len(clips), 'clips')} came before the step; {_norms_at_step(scene, optimizers)}"
    return Shown(False, f"{said}, the limit is {number(clips[0].limit)}")


def _is_early(scene: Scene, clip: Clipped, step: Stepped) -> bool:
    """A new turn has cleared them already, and goes on with a backward: then the clip is early, not late."""
    window = _window(scene, clip)
    if window is None or not window.before(clip, Zeroed) or not window.after(clip, BackwardRan):
        return False
    calls = {(place.file, place.call): place.line for place in step.places}
    common = next((place for place in clip.places if (place.file, place.call) in calls), None)
    # further down in the same call of a function: the clearing came behind the step, in the same turn
    return common is None or common.line <= calls[common.file, common.call]


@shows("GL102")
def clip_before_backward(scene: Scene, spot: Spot) -> Shown:
    clips = _clips(scene, spot)
    if not clips:
        return unreached(spot, scene.recording.steps)
    vain = [
        c for c in clips if not c.present or (c.optimizers and all(_nothing_new(scene, c, o) for o in c.optimizers))
    ]
    optimizers = sorted({o for c in clips for o in c.optimizers}) or scene.optimizers()
    used = _norms_at_step(scene, optimizers)
    if vain:
        clip = vain[0]
        said = (
            f"{share(len(vain), len(clips), 'clips')} found no new gradients ({clip.present} of {clip.parameters} "
            f"parameters had one, norm {number(clip.returned)}); {used}, the limit is {number(clip.limit)}"
        )
        return Shown(True, said, marks(vain))
    return Shown(False, f"every clip found the gradients of a backward; {used}, the limit is {number(clips[0].limit)}")


def _nothing_new(scene: Scene, clip: Clipped, optimizer: str) -> bool:
    window = scene.window_of(clip, optimizer)
    return window is not None and not window.before(clip, BackwardRan)


@shows("GL103")
def clip_partial_accumulation(scene: Scene, spot: Spot) -> Shown:
    clips = _clips(scene, spot)
    if not clips:
        return unreached(spot, scene.recording.steps)
    partial: list[Clipped] = []
    per_step: list[int] = []
    accumulates = False
    asked = set(marks(clips))
    for optimizer in sorted({o for c in clips for o in c.optimizers}):
        for window in scene.full_windows(optimizer):
            mine = [c for c in window.of(Clipped) if c.index in asked]
            accumulates = accumulates or len(window.of(BackwardRan)) > 1
            per_step.append(len(mine))
            partial += [c for c in mine if window.after(c, BackwardRan)]
    most = max(per_step, default=0)
    if partial:
        said = f"{most} clips for one step: {len(partial)} of {len(clips)} cut a sum that was not complete yet"
        return Shown(True, said, marks(partial))
    if not accumulates:
        return Shown(None, "no window of this run had more than one backward")
    return Shown(False, f"{most} clip{'' if most == 1 else 's'} for one step, of the complete sum")


@shows("GL104")
def value_clipping(scene: Scene, spot: Spot) -> Shown:
    clips = [c for c in _clips(scene, spot) if c.how == "value"]
    edits = [e for e in scene.at(spot, Edited) if e.how == "clamp"]
    if edits and not clips:
        changed = [(e.before[0].true, e.gradients[0].true) for e in edits if e.before and e.gradients]
        if changed:
            old, new = max(changed, key=lambda pair: pair[0] - pair[1])
            return Shown(
                True, f"values were cut {len(edits)} times, e.g. norm {number(old)} → {number(new)}", marks(edits)
            )
    if not clips:
        norm = _clips(scene, spot)
        if norm and spot.line is None:
            cosine = min((c.cosine for c in norm if c.cosine is not None), default=None)
            return Shown(False, f"clipped by norm: the direction stays (cosine {number(cosine)})")
        return unreached(spot, scene.recording.steps)
    bent = [c for c in clips if c.cosine is not None and c.cosine < 1 - 1e-6]
    if bent:
        worst = min(c.cosine for c in bent if c.cosine is not None)
        said = f"{share(len(bent), len(clips), 'clips')} bent the gradient: cosine to the one before {worst:.3f}"
        return Shown(True, said, marks(bent))
    return Shown(
        False, f"{share(len(clips), len(clips), 'clips')} left the direction as it was: no value was over the limit"
    )


@shows("GL105")
def clip_threshold_too_small(scene: Scene, spot: Spot) -> Shown:
    clips = [c for c in _clips(scene, spot) if c.active is not None]
    if not clips:
        return unreached(spot, scene.recording.steps)
    active = [c for c in clips if c.active]
    returned = sorted(c.returned for c in clips if c.returned is not None)
    middle = returned[len(returned) // 2] if returned else None
    said = f"acts on {share(len(active), len(clips), 'clips')}: median norm {number(middle)}"
    said += f", limit {number(clips[0].limit)}"
    return Shown(len(active) == len(clips), said, marks(active) if len(active) == len(clips) else ())


@shows("GL106")
def clip_exhausted_generator(scene: Scene, spot: Spot) -> Shown:
    clips = scene.at(spot, Clipped)
    if not clips:
        return unreached(spot, scene.recording.steps)
    empty = [c for c in clips if c.exhausted or not c.parameters]
    if empty:
        said = f"{share(len(empty), len(clips), 'clips')} got 0 parameters: the generator was used up"
        return Shown(
            True,
            f"{said}; {_norms_at_step(scene, scene.optimizers())}, the limit is {number(empty[0].limit)}",
            marks(empty),
        )
    said = f"every clip got {clips[0].parameters} parameters; {_norms_at_step(scene, list(clips[0].optimizers))}"
    return Shown(False, f"{said}, the limit is {number(clips[0].limit)}")


@shows("GL107")
def clip_misses_parameters(scene: Scene, spot: Spot) -> Shown:
    clips = _clips(scene, spot)
    if not clips:
        return unreached(spot, scene.recording.steps)
    left_out: list[Clipped] = []
    followed = 0
    for clip in clips:
        following = next((s for s in scene.recording.of(Stepped) if s.index > clip.index), None)
        followed += following is not None
        if following is not None and (clip.missed or following.owner not in clip.optimizers):
            left_out.append(clip)
    if left_out:
        said = f"{share(len(left_out), followed, 'clips')} left out parameters that the next step updated"
        return Shown(True, said, marks(left_out))
    return Shown(False, f"every clip got all {clips[0].present} gradients of the step behind it")


@shows("GL108")
def missing_clip(scene: Scene, spot: Spot) -> Shown:
    steps = [s for s in scene.at(spot, Stepped) if not s.skipped]
    if not steps:
        return unreached(spot, scene.recording.steps)
    exploded = [s for s in steps if (_used(s) or 0.0) > 100]
    largest = max((_used(s) or 0.0 for s in steps), default=0.0)
    said = f"largest norm at a step {number(largest)}"
    return Shown(
        bool(exploded),
        f"{said} (over 100 in {share(len(exploded), len(steps), 'steps')})" if exploded else said,
        marks(exploded),
    )


@shows("GL109")
def needless_clip(scene: Scene, spot: Spot) -> Shown:
    clips = [c for c in _clips(scene, spot) if c.active is not None]
    if not clips:
        return unreached(spot, scene.recording.steps)
    active = [c for c in clips if c.active]
    largest = max(c.returned for c in clips if c.returned is not None)
    said = f"acts on {share(len(active), len(clips), 'clips')}: largest norm {number(largest)}"
    said += f", limit {number(clips[0].limit)}"
    return Shown(not active, said, () if active else marks(clips))


@shows("GL111")
def gradient_edit_after_clip(scene: Scene, spot: Spot) -> Shown:
    edits = scene.at(spot, Edited)
    if not edits:
        return unreached(spot, scene.recording.steps)
    over: list[tuple[Edited, float, float]] = []
    highest, steps = 0.0, 0
    limit: float | None = None
    for edit in edits:
        for optimizer in edit.optimizers:
            window = scene.window_of(edit, optimizer)
            clip = next(iter(window.of(Clipped)), None) if window is not None else None
            if window is None or window.step is None or clip is None or clip.limit is None:
                continue
            limit, used = clip.limit, _used(window.step) or 0.0
            steps += 1
            highest = max(highest, used)
            late = any(c.index < edit.index for c in window.of(Clipped)) and not window.after(edit, Clipped)
            if late and used > clip.limit * (1 + 1e-4):
                over.append((edit, used, clip.limit))
    if over:
        _, used, most = max(over, key=lambda item: item[1])
        said = f"norm at the step {number(used)} where {number(most)} was the limit"
        return Shown(True, f"{said}, in {share(len(over), steps, 'steps')}", marks(e for e, _, _ in over))
    return Shown(False, f"largest norm at a step {number(highest)}, the limit is {number(limit)}")
