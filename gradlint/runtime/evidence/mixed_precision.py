"""GL2: what the scale did to the gradients, and what raised."""

from __future__ import annotations

from gradlint.runtime.evidence import shows
from gradlint.runtime.recording import (
    BackwardRan,
    Clipped,
    Edited,
    Forwarded,
    Happening,
    Looked,
    Met,
    Raised,
    Stepped,
    Unscaled,
    Updated,
    Warned,
)
from gradlint.runtime.scene import Scene, Shown, Spot, exception, marks, number, share, true_norm, unreached


def _idle(scene: Scene, spot: Spot) -> Shown | None:
    """No scaler does anything in this run: nothing can be shown of it."""
    if scene.scaler_works():
        return None
    met = [m for m in scene.recording.of(Met) if m.role == "scaler"]
    if met:
        return Shown(None, "the scaler is disabled in this run: nothing was scaled")
    return unreached(spot, scene.recording.steps) if spot.line is not None else None


def _raised(scene: Scene, spot: Spot, *words: str) -> list[Raised]:
    """Exceptions with these words, at the place or (after a fix) anywhere."""
    errors = scene.at(spot, Raised) if spot.line is not None else list(scene.recording.of(Raised))
    return [e for e in errors if any(w in e.message for w in words)]


@shows("GL201", "GL207")
def clip_of_scaled_gradients(scene: Scene, spot: Spot) -> Shown:
    if (idle := _idle(scene, spot)) is not None:
        return idle
    clips = [c for c in scene.at(spot, Clipped) if not c.exhausted and not c.unscales]
    if not clips and spot.line is not None:  # GL207 may speak of the unscale_
        clips = [c for line in spot.related for c in scene.at(Spot(spot.file, line, spot.function), Clipped)]
    if not clips:
        return unreached(spot, scene.recording.steps)
    scaled = [(c, g) for c in clips for g in c.before if g.scale != 1.0 and c.limit is not None]
    if scaled:
        clip, gradient = max(scaled, key=lambda pair: pair[1].true if pair[1].finite else 0.0)
        limit = (clip.limit or 0.0) / gradient.scale
        after = true_norm(clip.gradient_of(gradient.optimizer))
        said = (
            f"{share(len({c.index for c, _ in scaled}), len(clips), 'clips')} saw scaled gradients: the true limit was "
            f"{number(limit)} (max_norm {number(clip.limit)} / scale {number(gradient.scale)}), "
            f"a norm of {number(gradient.true)} became {number(after)}"
        )
        return Shown(True, said, marks(c for c, _ in scaled))
    largest = max((g.norm for c in clips for g in c.before), default=None)
    return Shown(
        False,
        f"every clip saw true gradients (scale 1): largest norm {number(largest)}, limit {number(clips[0].limit)}",
    )


@shows("GL202")
def double_unscale(scene: Scene, spot: Spot) -> Shown:
    if (idle := _idle(scene, spot)) is not None:
        return idle
    errors = _raised(scene, spot, "already been called", "unscale_() is being called after step()")
    if errors:
        return Shown(True, f"it raised {exception(errors[0])}", marks(errors))
    calls = scene.at(spot, Unscaled)
    if not calls:
        return unreached(spot, scene.recording.steps)
    return Shown(False, f"{len(calls)} calls of unscale_() raised nothing")


@shows("GL203")
def step_bypasses_scaler(scene: Scene, spot: Spot) -> Shown:
    if (idle := _idle(scene, spot)) is not None:
        return idle
    steps = [s for s in scene.at(spot, Stepped) if not s.closure]
    if not steps:
        return unreached(spot, scene.recording.steps)
    past: list[Stepped] = []
    for step in steps:
        window = scene.window_of(step, step.owner)
        if not step.scaler and window is not None and any(b.scaler for b in window.used()):
            past.append(step)
    if not past:
        return Shown(False, f"{share(len(steps), len(steps), 'steps')} went through the scaler, or had nothing scaled")
    worst = max((g for s in past if (g := s.before_of(s.owner)) is not None), key=lambda g: g.scale, default=None)
    said = f"{share(len(past), len(steps), 'steps')} went past the scaler"
    if worst is not None and worst.scale != 1.0:
        said += f": the weights moved by gradients × {number(worst.scale)}"
        said += f" (norm {number(worst.norm)} for a true {number(worst.true)})"
    elif any(not g.finite for s in past for g in s.before):
        said += ": inf or NaN gradients reached the weights"
    else:
        said += ": its check for inf and NaN was left out"
    errors = [e for e in scene.recording.of(Raised) if e.during == "update" and e.index > past[0].index]
    if errors:
        said += f"; update() raised {exception(errors[0])}"
    return Shown(True, said, marks([*past, *errors]))


@shows("GL204")
def missing_scaler_update(scene: Scene, spot: Spot) -> Shown:
    if (idle := _idle(scene, spot)) is not None:
        return idle
    calls: list[Happening] = [*scene.at(spot, Stepped), *scene.at(spot, Unscaled)]
    errors = _raised_behind(scene, spot, calls)
    updates = sum(1 for _ in scene.recording.of(Updated))
    if errors:
        return Shown(True, f"it raised {exception(errors[0])} ({updates} calls of update())", marks(errors))
    if not calls:
        return unreached(spot, scene.recording.steps)
    if len(calls) < 2:
        return Shown(None, "it ran only once: the second call is the one that raises")
    return Shown(False, f"{len(calls)} calls raised nothing, update() ran {updates} times")


def _raised_behind(scene: Scene, spot: Spot, calls: list[Happening]) -> list[Raised]:
    """What raised because no update() came between one of these calls and the next, here or at the next unscale_."""
    words = ("already been called", "unscale_() is being called after step()")
    anywhere = [e for e in scene.recording.of(Raised) if any(w in e.message for w in words)]
    here = _raised(scene, spot, *words)
    updates = [u.index for u in scene.recording.of(Updated)]
    found: list[Raised] = []
    for error in anywhere:
        last = max((c.index for c in calls if c.index < error.index), default=None)
        waits = last is not None and not any(last < u < error.index for u in updates)
        if error in here or waits:
            found.append(error)
    return found


@shows("GL205")
def unscale_partial_accumulation(scene: Scene, spot: Spot) -> Shown:
    if (idle := _idle(scene, spot)) is not None:
        return idle
    errors = _raised(scene, spot, "already been called")
    if errors:
        return Shown(True, f"it raised {exception(errors[0])}", marks(errors))
    calls = scene.at(spot, Unscaled)
    if not calls:
        return unreached(spot, scene.recording.steps)
    mixed: list[Unscaled] = []
    for call in calls:
        window = scene.window_of(call, call.owner)
        if window is not None and any(b.scaler for b in window.after(call, BackwardRan)):
            mixed.append(call)
    if mixed:
        said = f"{share(len(mixed), len(calls), 'calls')} came amid a window: "
        said += f"scaled gradients (× {number(mixed[0].scale)}) were added to true ones"
        return Shown(True, said, marks(mixed))
    return Shown(False, f"{share(len(calls), len(calls), 'calls')} of unscale_() came when the window was complete")


@shows("GL206")
def backward_bypasses_scaler(scene: Scene, spot: Spot) -> Shown:
    if (idle := _idle(scene, spot)) is not None:
        return idle
    errors = [e for e in scene.recording.of(Raised) if "scale" in e.message or "No inf checks" in e.message]
    backwards = scene.at(spot, BackwardRan)
    if not backwards:
        return unreached(spot, scene.recording.steps)
    plain = [b for b in backwards if not b.scaler]
    if plain and errors:
        return Shown(
            True, f"the loss was not scaled, and the scaler raised {exception(errors[0])}", marks([*plain, *errors])
        )
    divided: list[tuple[BackwardRan, Stepped]] = []
    for backward in plain:
        for optimizer in backward.optimizers:
            window = scene.window_of(backward, optimizer)
            if window is not None and window.step is not None and window.step.scaler:
                divided.append((backward, window.step))
    if divided:
        backward, step = divided[-1]
        said = f"{share(len(divided), len(backwards), 'backwards')} made true gradients, and the scaler divided them"
        return Shown(True, f"{said}: the weights moved by {number(step.moved)}", marks(b for b, _ in divided))
    return Shown(False, f"{share(len(backwards), len(backwards), 'backwards')} went through the scaler")


@shows("GL211")
def scaled_gradients_read(scene: Scene, spot: Spot) -> Shown:
    if (idle := _idle(scene, spot)) is not None:
        return idle
    looks: list[Happening] = [*scene.at(spot, Looked), *scene.at(spot, Edited)]
    if not looks:
        return unreached(spot, scene.recording.steps)
    scaled = [(h, g) for h in looks for g in (h.before or h.gradients) if g.scale != 1.0]
    if scaled:
        _, gradient = scaled[-1]
        said = f"it saw a norm of {number(gradient.norm)} where the true one is {number(gradient.true)}"
        return Shown(True, f"{said} (scale {number(gradient.scale)})", marks(h for h, _ in scaled))
    return Shown(False, f"it saw true gradients {len(looks)} times")


@shows("GL212")
def float16_without_scaler(scene: Scene, spot: Spot) -> Shown:
    half = [f for f in scene.recording.of(Forwarded) if f.autocast == "float16"]
    steps = [s for s in scene.recording.of(Stepped) if s.before]
    if not half:
        return Shown(None, "no forward ran in float16 on this device")
    gone = [s for s in steps for g in s.before if g.present and g.norm == 0]
    if gone:
        return Shown(True, f"all gradients were 0 in {share(len(gone), len(steps), 'steps')}", marks(gone))
    return Shown(None, f"the gradients did not vanish in these {len(steps)} steps")


@shows("GL213")
def double_scaler_update(scene: Scene, spot: Spot) -> Shown:
    if (idle := _idle(scene, spot)) is not None:
        return idle
    errors = _raised(scene, spot, "No inf checks")
    if errors:
        return Shown(True, f"it raised {exception(errors[0])}", marks(errors))
    updates = scene.at(spot, Updated)
    if not updates:
        return unreached(spot, scene.recording.steps)
    between: list[Updated] = []
    for update in updates:
        for optimizer in scene.optimizers():
            window = scene.window_of(update, optimizer)
            if window is None or window.step is None or not window.step.scaler:
                continue
            waiting = [b for b in window.used() if b.index < update.index and b.scaler == update.scaler]
            unscaled = window.before(update, Unscaled)
            if waiting and not unscaled and update not in between:
                between.append(update)
    if between:
        changed = [u for u in between if u.new_scale != u.scale]
        said = f"{share(len(between), len(updates), 'updates')} came before a step whose gradients have the old scale"
        if changed:
            said += f": {number(changed[0].scale)} became {number(changed[0].new_scale)}"
        return Shown(True, said, marks(between))
    return Shown(False, f"{share(len(updates), len(updates), 'updates')} came behind all steps")


@shows("GL210")
def deprecated_amp_api(scene: Scene, spot: Spot) -> Shown:
    warned = [w for w in scene.recording.of(Warned) if w.category == "FutureWarning" and "amp" in w.message]
    here = [w for w in scene.at(spot, Warned) if w in warned]
    if here:
        return Shown(True, f"torch warned: {here[0].message.partition('. ')[0]}", marks(here))
    if spot.line is None:
        return (
            Shown(False, f"torch warned {len(warned)} times of it") if warned else Shown(False, "torch no longer warns")
        )
    made = [m for m in scene.at(spot, Met) if m.role == "scaler"]
    if made and not warned:
        return Shown(False, "torch did not warn: this version does not mind")
    return unreached(spot, scene.recording.steps)
