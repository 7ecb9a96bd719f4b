"""Mutations of mixed precision: GL201 to GL204, GL206 and GL207."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .draft import Draft, Moved
from .scene import Event, Kind, Scene


def scaled(scene: Scene, event: Event) -> bool:
    """Does the function of this event (or, for a step split over methods, the file) scale a loss with its scaler?"""
    return any(b.scaler == event.scaler for b in scene.of(Kind.BACKWARD) if b.scaler)


def following(scene: Scene, event: Event) -> list[Event]:
    """The events behind this one in its function, in the order of the text."""
    owner = scene.owner(event.stmt)
    return [e for e in scene.events if scene.owner(e.stmt) is owner and e.stmt.lineno > event.stmt.lineno]


def unscaled_clips(scene: Scene) -> Iterator[tuple[Event, Event]]:
    """Each unscale_ with the clip that is the very next event, both before the scaler's step of that optimizer."""
    for unscale in scene.of(Kind.UNSCALE):
        rest = following(scene, unscale)
        step = next((e for e in rest if e.kind is Kind.STEP), None)
        again = sum(e.target == unscale.target for e in scene.of(Kind.UNSCALE)) > 1
        stepped = step is not None and step.scaler == unscale.scaler and step.target == unscale.target
        if stepped and rest[0].kind is Kind.CLIP and scaled(scene, unscale) and not again:
            yield unscale, rest[0]


def gl201(scene: Scene) -> Iterator[Draft]:
    """Delete the unscale_ before a clip."""
    for unscale, clip in unscaled_clips(scene):
        draft = Draft(scene).blame(clip.stmt)
        draft.delete(unscale.stmt)
        yield draft


def gl202(scene: Scene) -> Iterator[Draft]:
    """Unscale a second time before the step."""
    for unscale in scene.of(Kind.UNSCALE):
        after = [e for e in following(scene, unscale)[:1] if e.kind is Kind.CLIP]
        last = after[0] if after and scene.body[after[0].stmt] is scene.body[unscale.stmt] else unscale
        if scaled(scene, unscale):
            draft = Draft(scene)
            draft.insert_after(last.stmt, Moved(draft.written(unscale.stmt, last.stmt.col_offset)))
            yield draft


def gl203(scene: Scene) -> Iterator[Draft]:
    """`scaler.step(opt)` becomes `opt.step()`."""
    for step in scene.of(Kind.STEP):
        if step.scaler and scaled(scene, step):
            draft = Draft(scene).blame(step.stmt)
            draft.replace(step.call, f"{step.target}.step()")
            yield draft


def gl204(scene: Scene) -> Iterator[Draft]:
    """Delete the only update() of a scaler with one step."""
    for update in scene.of(Kind.UPDATE):
        mine = [e for e in scene.of(Kind.UPDATE, Kind.STEP) if e.scaler == update.scaler]
        steps = [e for e in mine if e.kind is Kind.STEP]
        if len(mine) == 2 and len(steps) == 1 and scene.repeats(steps[0].stmt) and scaled(scene, update):
            draft = Draft(scene).blame(steps[0].stmt)
            draft.delete(update.stmt)
            yield draft


def gl206(scene: Scene) -> Iterator[Draft]:
    """`scaler.scale(loss).backward()` becomes `loss.backward()`."""
    for back in scene.of(Kind.BACKWARD):
        rest = [e for e in following(scene, back) if e.kind in (Kind.STEP, Kind.BACKWARD)]
        next_one = rest[0] if rest else None
        only = sum(b.scaler == back.scaler for b in scene.of(Kind.BACKWARD)) == 1
        window = any(back in w.backwards for w in scene.windows)
        if not back.scaler or next_one is None or next_one.scaler != back.scaler or (window and not only):
            continue
        if next_one.kind is Kind.STEP and isinstance(back.call.func, ast.Attribute):
            draft = Draft(scene).blame(back.stmt)
            loss = back.target if back.target.replace(".", "").isidentifier() else f"({back.target})"
            draft.replace(back.call.func.value, loss)
            yield draft


def gl207(scene: Scene) -> Iterator[Draft]:
    """Move unscale_ behind the clip."""
    for unscale, clip in unscaled_clips(scene):
        body = scene.body[unscale.stmt]
        unit = scene.unit(body, clip.stmt)
        if unit is not None:
            draft = Draft(scene).blame(clip.stmt)
            draft.insert_after(unit, draft.lift(unscale, body, unscale.stmt.col_offset), blame=False)
            yield draft


MUTATIONS = {"GL201": gl201, "GL202": gl202, "GL203": gl203, "GL204": gl204, "GL206": gl206, "GL207": gl207}
