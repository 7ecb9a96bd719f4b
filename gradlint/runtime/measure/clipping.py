"""GL1: what a clip saw, and what the step used."""

from __future__ import annotations

from gradlint.model import counted
from gradlint.runtime.measure import SINGLE, Asked, Run, Shown, here, marks, measures, number, share, true_norm
from gradlint.runtime.recording import BackwardRan, Clipped, Edited, Looked, Stepped


def _clips(asked: Asked) -> list[Clipped]:
    return [c for c in asked.here(Clipped) if not c.exhausted]


def _used(step: Stepped | None) -> float | None:
    """The true norm of what a step used."""
    return true_norm(step.used) if step is not None else None


def _largest(run: Run, optimizers: list[str]) -> float | None:
    """The largest norm that a step used, in true units."""
    used = [n for o in optimizers for s in run.steps(o) if (n := _used(s)) is not None]
    return max(used, default=None)


def _norms_at_step(run: Run, clips: list[Clipped]) -> str:
    """`largest norm at a step 85.1, the limit is 1`."""
    optimizers = sorted({o for c in clips for o in c.optimizers}) or run.optimizers()
    largest = _largest(run, optimizers)
    said = f"largest norm at a step {number(largest)}" if largest is not None else "no step was taken"
    return f"{said}, the limit is {number(clips[0].limit)}"


@measures("GL101", of=_clips)
def clip_after_step(asked: Asked, clips: list[Clipped]) -> Shown:
    late = asked.mistaken(Clipped)
    if late:
        steps = [(c, s) for c in late if (s := asked.run.step_before(c)) is not None]
        clip, step = max(steps, key=lambda pair: _used(pair[1]) or 0.0)
        said = f"{share(len(late), len(clips), 'clips')} came after the step: it used a norm of {number(_used(step))}"
        return Shown(True, f"{said}, the limit is {number(clip.limit)}")
    return Shown(
        False, f"{share(len(clips), len(clips), 'clips')} came before the step; {_norms_at_step(asked.run, clips)}"
    )


@measures("GL102", of=_clips)
def clip_before_backward(asked: Asked, clips: list[Clipped]) -> Shown:
    vain = asked.mistaken(Clipped)
    if vain:
        found = f"{vain[0].present} of {vain[0].parameters} parameters had one, norm {number(vain[0].returned)}"
        said = f"{share(len(vain), len(clips), 'clips')} found no new gradients ({found})"
        return Shown(True, f"{said}; {_norms_at_step(asked.run, clips)}")
    return Shown(False, f"every clip found the gradients of a backward; {_norms_at_step(asked.run, clips)}")


@measures("GL103", of=_clips)
def clip_partial_accumulation(asked: Asked, clips: list[Clipped]) -> Shown:
    partial, most = asked.mistaken(Clipped), asked.most(clips)
    if partial:
        said = f"{len(partial)} of {len(clips)} cut a sum that was not complete yet"
        return Shown(True, f"{most} clips for one step: {said}")
    if all(len(asked.run.happened(w, BackwardRan)) < 2 for w in asked.windows(clips)):
        return Shown(None, SINGLE)
    return Shown(False, f"{counted(most, 'clip')} for one step, of the complete sum")


@measures("GL104", decides=True)
def value_clipping(asked: Asked) -> Shown:
    clips = [c for c in _clips(asked) if c.how == "value"]
    edits = [e for e in asked.here(Edited) if e.how == "clamp"]
    if edits and not clips:
        changed = [(e.before[0].true, e.gradients[0].true) for e in edits if e.before and e.gradients]
        if changed:
            old, new = max(changed, key=lambda pair: pair[0] - pair[1])
            said = f"values were cut {len(edits)} times, e.g. norm {number(old)} → {number(new)}"
            return Shown(True, said, marks(edits))
    if not clips:
        norm = _clips(asked)
        if norm and asked.after_fix:
            cosine = min((c.cosine for c in norm if c.cosine is not None), default=None)
            return Shown(False, f"clipped by norm: the direction stays (cosine {number(cosine)})")
        return asked.unreached()
    bent = [c for c in clips if c.cosine is not None and c.cosine < 1 - 1e-6]
    if bent:
        worst = min(c.cosine for c in bent if c.cosine is not None)
        said = f"{share(len(bent), len(clips), 'clips')} bent the gradient: cosine to the one before {worst:.3f}"
        return Shown(True, said, marks(bent))
    return Shown(
        False, f"{share(len(clips), len(clips), 'clips')} left the direction as it was: no value was over the limit"
    )


def _judgeable(asked: Asked) -> list[Clipped]:
    """The clips of which it is known whether they acted."""
    return [c for c in _clips(asked) if c.active is not None]


@measures("GL105", of=_judgeable, decides=True)
def clip_threshold_too_small(asked: Asked, clips: list[Clipped]) -> Shown:
    active = [c for c in clips if c.active]
    returned = sorted(c.returned for c in clips if c.returned is not None)
    middle = returned[len(returned) // 2] if returned else None
    said = f"acts on {share(len(active), len(clips), 'clips')}: median norm {number(middle)}"
    said += f", limit {number(clips[0].limit)}"
    return Shown(len(active) == len(clips), said, marks(active) if len(active) == len(clips) else ())


@measures("GL106", of=here(Clipped))
def clip_exhausted_generator(asked: Asked, clips: list[Clipped]) -> Shown:
    empty = asked.mistaken(Clipped)
    if empty:
        said = f"{share(len(empty), len(clips), 'clips')} got 0 parameters: the generator was used up"
        return Shown(True, f"{said}; {_norms_at_step(asked.run, empty)}")
    return Shown(False, f"every clip got {clips[0].parameters} parameters; {_norms_at_step(asked.run, clips)}")


@measures("GL107", of=_clips, decides=True)
def clip_misses_parameters(asked: Asked, clips: list[Clipped]) -> Shown:
    left_out: list[Clipped] = []
    followed = 0
    for clip in clips:
        following = next((s for s in asked.run.recording.of(Stepped) if s.index > clip.index), None)
        followed += following is not None
        if following is not None and (clip.missed or following.owner not in clip.optimizers):
            left_out.append(clip)
    if left_out:
        said = f"{share(len(left_out), followed, 'clips')} left out parameters that the next step updated"
        return Shown(True, said, marks(left_out))
    if not followed:
        return Shown(None, "no step was taken behind the clip")
    return Shown(False, f"every clip got all {clips[0].present} gradients of the step behind it")


def _steps(asked: Asked) -> list[Stepped]:
    return [s for s in asked.here(Stepped) if not s.skipped]


@measures("GL108", of=_steps, decides=True)
def missing_clip(asked: Asked, steps: list[Stepped]) -> Shown:
    exploded = [s for s in steps if (_used(s) or 0.0) > 100]
    largest = max((_used(s) or 0.0 for s in steps), default=0.0)
    said = f"largest norm at a step {number(largest)}"
    if exploded:
        said += f" (over 100 in {share(len(exploded), len(steps), 'steps')})"
    return Shown(bool(exploded), said, marks(exploded))


@measures("GL109", of=_judgeable, decides=True)
def needless_clip(asked: Asked, clips: list[Clipped]) -> Shown:
    active = [c for c in clips if c.active]
    largest = max(c.returned for c in clips if c.returned is not None)
    said = f"acts on {share(len(active), len(clips), 'clips')}: largest norm {number(largest)}"
    said += f", limit {number(clips[0].limit)}"
    return Shown(not active, said, () if active else marks(clips))


@measures("GL111", of=here(Edited))
def gradient_edit_after_clip(asked: Asked, edits: list[Edited]) -> Shown:
    found = (asked.run.window_of(e, o) for e in edits for o in e.optimizers)
    windows = {id(w): w for w in found if w is not None}.values()
    steps = [(s, w) for w in windows if (s := asked.run.step(w)) is not None]
    clipped = [(_used(s) or 0.0, clips[0].limit or 0.0) for s, w in steps if (clips := asked.run.happened(w, Clipped))]
    over = [(used, limit) for used, limit in clipped if used > limit * (1 + 1e-4)]
    if asked.wrong and over:
        used, limit = max(over)
        said = f"norm at the step {number(used)} where {number(limit)} was the limit"
        return Shown(True, f"{said}, in {share(len(over), len(clipped), 'steps')}")
    highest = max((used for used, _ in clipped), default=None)
    said = f"largest norm at a step {number(highest)}, the limit is {number(clipped[0][1] if clipped else None)}"
    if asked.wrong:
        return Shown(True, f"changed behind {share(len(asked.wrong), len(clipped), 'clips')}; {said}: not over it yet")
    return Shown(False, said)


@measures("GL112", of=here(Looked), decides=True)
def norm_measured_after_clip(asked: Asked, looks: list[Looked]) -> Shown:
    late = [(h, g) for h in looks for g in h.gradients if g.clipped]
    if not late:
        return Shown(False, f"it saw gradients that nobody had clipped, {len(looks)} times")
    seen = max(g.true for _, g in late)
    clips = (c for h, _ in late for c in asked.run.recording.of(Clipped) if c.index < h.index)
    there = max((c.returned for c in clips if c.returned is not None), default=None)
    said = f"it saw a norm of at most {number(seen)}, what the clip had left of up to {number(there)}"
    return Shown(True, said, marks(h for h, _ in late))
