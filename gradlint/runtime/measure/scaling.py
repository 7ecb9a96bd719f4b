"""GL2: what the scale did to the gradients, and what raised."""

from __future__ import annotations

from gradlint.runtime.measure import Asked, Shown, Spot, exception, here, marks, measures, number, share, true_norm
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


def _refused(asked: Asked, more: str = "") -> Shown:
    """The machine objects to a call that torch would not carry out."""
    errors = asked.refused()
    return Shown(True, f"it raised {exception(errors[0])}{more}", marks(errors))


def _clips(asked: Asked) -> list[Clipped]:
    """Those at the place; GL207 may speak of the unscale_ there, and tell of the clip beside it."""
    clips = [c for c in asked.here(Clipped) if not c.exhausted and not c.unscales]
    if clips or asked.after_fix:
        return clips
    spots = [Spot(asked.spot.file, line, asked.spot.function) for line in asked.spot.related]
    return [c for spot in spots for c in asked.run.at(spot, Clipped)]


@measures("GL201", "GL207", of=_clips, scaled=True)
def clip_of_scaled_gradients(asked: Asked, clips: list[Clipped]) -> Shown:
    scaled = [(c, g) for c in asked.mistaken(Clipped) for g in c.before if g.scale != 1.0 and c.limit is not None]
    if scaled:
        clip, gradient = max(scaled, key=lambda pair: pair[1].true if pair[1].finite else 0.0)
        limit = (clip.limit or 0.0) / gradient.scale
        after = true_norm(clip.gradient_of(gradient.optimizer))
        return Shown(
            True,
            f"{share(len({c.index for c, _ in scaled}), len(clips), 'clips')} saw scaled gradients: the true limit was "
            f"{number(limit)} (max_norm {number(clip.limit)} / scale {number(gradient.scale)}), "
            f"a norm of {number(gradient.true)} became {number(after)}",
        )
    if asked.wrong:
        return Shown(True, f"{share(len(asked.wrong), len(clips), 'clips')} came before the gradients were unscaled")
    largest = max((g.norm for c in clips for g in c.before), default=None)
    return Shown(
        False,
        f"every clip saw true gradients (scale 1): largest norm {number(largest)}, limit {number(clips[0].limit)}",
    )


@measures("GL202", scaled=True)
def double_unscale(asked: Asked) -> Shown:
    if asked.refused():
        return _refused(asked)
    calls = asked.here(Unscaled)
    return Shown(False, f"{len(calls)} calls of unscale_() raised nothing") if calls else asked.unreached()


def _steps(asked: Asked) -> list[Stepped]:
    return [s for s in asked.here(Stepped) if not s.closure]


@measures("GL203", of=_steps, scaled=True)
def step_bypasses_scaler(asked: Asked, steps: list[Stepped]) -> Shown:
    past = asked.mistaken(Stepped)
    if not past:
        return Shown(False, f"{share(len(steps), len(steps), 'steps')} went through the scaler, or had nothing scaled")
    worst = max((s.used for s in past if s.used is not None), key=lambda g: g.scale, default=None)
    said = f"{share(len(past), len(steps), 'steps')} went past the scaler"
    if any(isinstance(h, Stepped) and h.scaler for h in asked.story):
        said += f" with gradients that it had used already: the weights moved by {number(past[-1].moved)} once more"
    elif worst is not None and worst.scale != 1.0:
        said += f": the weights moved by gradients × {number(worst.scale)}"
        said += f" (norm {number(worst.norm)} for a true {number(worst.true)})"
    elif any(not g.finite for s in past for g in s.before):
        said += ": inf or NaN gradients reached the weights"
    else:
        said += ": its check for inf and NaN was left out"
    errors = [e for e in asked.run.recording.of(Raised) if e.during == "update" and e.index > past[0].index]
    if errors:
        said += f"; update() raised {exception(errors[0])}"
    return Shown(True, said, marks(errors))


@measures("GL204", scaled=True)
def missing_scaler_update(asked: Asked) -> Shown:
    updates = sum(1 for _ in asked.run.recording.of(Updated))
    if asked.refused():
        return _refused(asked, f" ({updates} calls of update())")
    calls: list[Happening] = [*asked.here(Stepped), *asked.here(Unscaled)]
    if not calls:
        return asked.unreached()
    if len(calls) < 2:
        return Shown(None, "it ran only once: the second call is the one that raises")
    return Shown(False, f"{len(calls)} calls raised nothing, update() ran {updates} times")


@measures("GL205", scaled=True)
def unscale_partial_accumulation(asked: Asked) -> Shown:
    if asked.refused():
        return _refused(asked)
    calls, mixed = asked.here(Unscaled), asked.mistaken(Unscaled)
    if not calls:
        return asked.unreached()
    if mixed:
        said = f"{share(len(mixed), len(calls), 'calls')} came amid a window: "
        return Shown(True, f"{said}scaled gradients (× {number(mixed[0].scale)}) were added to true ones")
    return Shown(False, f"{share(len(calls), len(calls), 'calls')} of unscale_() came when the window was complete")


@measures("GL206", of=here(BackwardRan), scaled=True)
def backward_bypasses_scaler(asked: Asked, backwards: list[BackwardRan]) -> Shown:
    if asked.refused():
        said = f"the loss was not scaled, and the scaler raised {exception(asked.refused()[0])}"
        return Shown(True, said, marks(asked.refused()))
    if asked.wrong:
        made = share(len(asked.wrong), len(backwards), "backwards")
        moved = [h.moved for h in asked.story if isinstance(h, Stepped)]
        said = f"{made} made true gradients, and the scaler divided them: the weights moved by "
        return Shown(True, f"{said}{number(moved[-1] if moved else None)}")
    return Shown(False, f"{share(len(backwards), len(backwards), 'backwards')} went through the scaler")


@measures("GL208", of=here(BackwardRan))
def backward_under_autocast(asked: Asked, backwards: list[BackwardRan]) -> Shown:
    inside = asked.mistaken(BackwardRan)
    if inside:
        return Shown(True, f"{share(len(inside), len(backwards), 'backwards')} ran under {inside[0].autocast} autocast")
    return Shown(False, f"{share(len(backwards), len(backwards), 'backwards')} ran outside of autocast")


def _looks(asked: Asked) -> list[Happening]:
    return [*asked.here(Looked), *asked.here(Edited)]


@measures("GL211", of=_looks, scaled=True)
def scaled_gradients_read(asked: Asked, looks: list[Happening]) -> Shown:
    scaled = [g for h in asked.wrong for g in (h.before or h.gradients) if g.scale != 1.0]
    if scaled:
        said = f"it saw a norm of {number(scaled[-1].norm)} where the true one is {number(scaled[-1].true)}"
        return Shown(True, f"{said} (scale {number(scaled[-1].scale)})")
    if asked.wrong:
        return Shown(True, "it saw gradients before they were unscaled")
    return Shown(False, f"it saw true gradients {len(looks)} times")


@measures("GL212", decides=True)
def float16_without_scaler(asked: Asked) -> Shown:
    half = [f for f in asked.run.recording.of(Forwarded) if f.autocast == "float16"]
    steps = [s for s in asked.run.recording.of(Stepped) if s.before]
    if not half:
        return Shown(None, "no forward ran in float16 on this device")
    gone = [s for s in steps for g in s.before if g.present and g.norm == 0]
    if gone:
        return Shown(True, f"all gradients were 0 in {share(len(gone), len(steps), 'steps')}", marks(gone))
    return Shown(None, f"the gradients did not vanish in these {len(steps)} steps")


@measures("GL213", scaled=True)
def double_scaler_update(asked: Asked) -> Shown:
    if asked.refused():
        return _refused(asked)
    updates, between = asked.here(Updated), asked.mistaken(Updated)
    if not updates:
        return asked.unreached()
    if between:
        changed = [u for u in between if u.new_scale != u.scale]
        said = f"{share(len(between), len(updates), 'updates')} came before a step whose gradients have the old scale"
        if changed:
            said += f": {number(changed[0].scale)} became {number(changed[0].new_scale)}"
        return Shown(True, said)
    return Shown(False, f"{share(len(updates), len(updates), 'updates')} came behind all steps")


@measures("GL110", "GL210", decides=True)
def deprecated(asked: Asked) -> Shown:
    """torch's own word for it."""
    warned = [w for w in asked.run.recording.of(Warned) if w.category == "FutureWarning" and _is_ours(w.message)]
    here = [w for w in asked.here(Warned) if w in warned]
    if here:
        return Shown(True, f"torch warned: {here[0].message.partition('. ')[0]}", marks(here))
    if asked.after_fix:
        return Shown(False, f"torch warned {len(warned)} times of it" if warned else "torch no longer warns")
    used = any(m.role == "scaler" for m in asked.here(Met)) or bool(asked.here(Clipped))
    if used and not warned:
        return Shown(False, "torch did not warn: this version does not mind")
    return asked.unreached()


def _is_ours(message: str) -> bool:
    return "amp" in message or "clip_grad_norm" in message
