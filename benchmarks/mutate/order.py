"""Mutations of order and presence in one update: GL101, GL102, GL401, GL403 to GL406."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .draft import Draft, crosses_definition
from .scene import LOOPS, Event, Kind, Scene, dotted_tail, text


def spans(scene: Scene) -> Iterator[tuple[list[ast.stmt], Event, int, int]]:
    """Each step with its block: (body, step, index of its unit, index just behind the previous step's unit)."""
    for step in scene.of(Kind.STEP):
        for body in bodies(scene, step):
            units = scene.units(body, Kind.STEP)
            at = next(i for i, e in units if e is step)
            yield body, step, at, max((i + 1 for i, _ in units if i < at), default=0)


def bodies(scene: Scene, step: Event) -> list[list[ast.stmt]]:
    """The block of the step itself, or the one round its `if amp: … else: …`."""
    found = [scene.body[step.stmt]]
    parent = scene.parent[step.stmt]
    if isinstance(parent, ast.If) and parent.orelse:
        found.append(scene.body[parent])
    return found


def in_span(scene: Scene, body: list[ast.stmt], low: int, high: int, kind: Kind) -> list[tuple[int, Event]]:
    return [(i, e) for i, e in scene.units(body, kind) if low <= i < high]


def is_window(scene: Scene, body: list[ast.stmt]) -> bool:
    return any(w.boundary is body for w in scene.windows)


def one_optimizer(scene: Scene) -> bool:
    return len({e.target for e in scene.of(Kind.STEP)}) == 1


def clears(scene: Scene, zero: Event, step: Event) -> bool:
    return zero.target == step.target or (one_optimizer(scene) and zero.target not in scene.optimizers)


def gl101(scene: Scene) -> Iterator[Draft]:
    """Move a clip behind the step."""
    for body, step, at, low in spans(scene):
        clips = in_span(scene, body, low, at, Kind.CLIP)
        behind = in_span(scene, body, at, len(body), Kind.STEP)
        if len({i for i, _ in clips}) != 1 or {e.target for _, e in behind} != {step.target}:
            continue
        where, clip = clips[0]
        if not crosses_definition(scene, body[where], body[where].lineno, body[at].end_lineno or 0):
            draft = Draft(scene)
            draft.insert_after(body[at], draft.lift(clip, body, body[at].col_offset))
            yield draft


def gl102(scene: Scene) -> Iterator[Draft]:
    """Move a clip to just before the only backward."""
    for body, step, at, low in spans(scene):
        clips, backs = (in_span(scene, body, low, at, k) for k in (Kind.CLIP, Kind.BACKWARD))
        if is_window(scene, body) or len({i for i, _ in clips}) != 1 or len({i for i, _ in backs}) != 1:
            continue
        (where, clip), back = clips[0], body[backs[0][0]]
        zeros = in_span(scene, body, low, backs[0][0], Kind.ZERO)
        if where <= backs[0][0] or isinstance(back, LOOPS) or not isinstance(back, ast.Expr | ast.If):
            continue
        if not one_optimizer(scene) and not any(clears(scene, z, step) for _, z in zeros):
            continue
        owner = scene.owner(step.stmt)
        if ".grad = None" not in scene.source and not any(scene.owner(z.stmt) is owner for z in scene.of(Kind.ZERO)):
            continue  # who knows what the gradients hold here
        if not crosses_definition(scene, body[where], back.lineno, body[where].lineno):
            draft = Draft(scene)
            draft.insert_before(back, draft.lift(clip, body, back.col_offset))
            yield draft


def gl401(scene: Scene) -> Iterator[Draft]:
    """Delete the only zero_grad of an optimizer."""
    zeros = scene.of(Kind.ZERO)
    said = [n for n in ast.walk(scene.tree) if getattr(n, "attr", getattr(n, "id", "")) == "zero_grad"]
    if len(said) != len(zeros) or re.search(r"\.grad\b(\.data)?(\.zero_\(| *= )|set_to_none=False", scene.source):
        return  # something else may clear them too
    for zero in zeros:
        scope = scene.loop(zero.stmt) or scene.owner(zero.stmt)
        here = [e for e in scene.events if scene.inside(e.stmt, scope)]
        steps = [e for e in here if e.kind is Kind.STEP and clears(scene, zero, e)]
        others = [z for z in zeros if z is not zero and (z.target == zero.target or not alone(scene))]
        away = all(scene.owner(z.stmt) is scene.owner(zero.stmt) and z not in here for z in others)
        known = one_optimizer(scene) or disjoint(scene, zero.target)
        step = steps[-1].stmt.lineno if steps else 0
        apart = [e for e in here if e is zero or (e.kind is Kind.STEP and not clears(scene, zero, e))]
        marks = [e.stmt.lineno for e in apart]
        since = max((m for m in marks if m < step), default=0)
        backs = [e for e in here if e.kind is Kind.BACKWARD and since < e.stmt.lineno < step]
        if backs and away and known and scene.repeats(zero.stmt):
            draft = Draft(scene).blame(backs[0].stmt)
            draft.delete(zero.stmt)
            yield draft


def alone(scene: Scene) -> bool:
    """Is every zero_grad called on an optimizer that is stepped here (not on a model, whose parameters several own)?"""
    return {z.target for z in scene.of(Kind.ZERO)} <= {s.target for s in scene.of(Kind.STEP)}


def disjoint(scene: Scene, optimizer: str) -> bool:
    """Does this file build the optimizer, from parameters that no other optimizer's text contains?"""
    mine = scene.optimizers.get(optimizer, "")
    rest = [v for k, v in scene.optimizers.items() if k != optimizer]
    return bool(mine) and alone(scene) and bool(rest) and not any(mine in v or v in mine for v in rest)


def gl403(scene: Scene) -> Iterator[Draft]:
    """Move a zero_grad to between backward and step."""
    for body, step, at, low in spans(scene):
        zeros = [(i, z) for i, z in scene.units(body, Kind.ZERO) if z.target == step.target or one_optimizer(scene)]
        backs = in_span(scene, body, low, at, Kind.BACKWARD)
        if len(zeros) != 1 or body[zeros[0][0]] is not zeros[0][1].stmt or not (backs or is_window(scene, body)):
            continue
        (where, zero), back = zeros[0], max((i for i, _ in backs), default=-1)
        if where < at and (where > back or where < low):
            continue
        first, last = sorted((zero.stmt.lineno, body[at].lineno))
        if clears(scene, zero, step) and not crosses_definition(scene, zero.stmt, first, last):
            draft = Draft(scene)
            draft.insert_before(body[at], draft.lift(zero, body, body[at].col_offset))
            yield draft


def gl404(scene: Scene) -> Iterator[Draft]:
    """Move a step to between zero_grad and backward."""
    for body, step, at, low in spans(scene):
        backs = in_span(scene, body, low, at, Kind.BACKWARD)
        if body[at] is not step.stmt or is_window(scene, body) or len({i for i, _ in backs}) != 1:
            continue
        back = backs[0][0]
        zeros = [z for _, z in in_span(scene, body, low, back, Kind.ZERO) if clears(scene, z, step)]
        fits = isinstance(body[back], ast.Expr | ast.If)
        if zeros and fits and not crosses_definition(scene, step.stmt, body[back].lineno, step.stmt.lineno):
            draft = Draft(scene)
            draft.insert_before(body[back], draft.lift(step, body, body[back].col_offset))
            yield draft


def gl405(scene: Scene) -> Iterator[Draft]:
    """Drop the parentheses of a call without arguments, each method once."""
    seen: set[str] = set()
    for event in scene.events:
        call, stmt = event.call, event.stmt
        bare = isinstance(stmt, ast.Expr) and stmt.value is call and isinstance(call.func, ast.Attribute)
        key = f"{event.kind} {text(call.func)}"
        if not bare or call.args or call.keywords or key in seen or event.kind is Kind.CLIP:
            continue
        if event.kind is Kind.BACKWARD and event.scaler:
            continue
        seen.add(key)
        draft = Draft(scene).blame(stmt)
        draft.replace(call, text(call.func))
        yield draft


def gl406(scene: Scene) -> Iterator[Draft]:
    """Move a torch scheduler's step before the optimizer's step, or a per-epoch one to the top of the epoch."""
    for sched in scene.of(Kind.SCHEDULE):
        body, loop = scene.body[sched.stmt], scene.loop(sched.stmt)
        plain = sched.target in scene.schedulers and not sched.call.args and not sched.call.keywords
        at = next(i for i, s in enumerate(body) if s is sched.stmt)
        if not plain or not scene.repeats(sched.stmt):
            continue
        steps = [i for i, _ in scene.units(body, Kind.STEP)]
        near = [i for i in steps if not isinstance(body[i], LOOPS)]
        if near and max(steps) < at and near == steps:
            anchor = body[min(near)]
        elif loop is not None and body is loop.body and max(epochs(scene, body), default=at) < at:
            anchor = body[0]
        else:
            continue
        if not crosses_definition(scene, sched.stmt, anchor.lineno, sched.stmt.lineno):
            draft = Draft(scene)
            draft.insert_before(anchor, draft.lift(sched, body, anchor.col_offset))
            yield draft


def epochs(scene: Scene, body: list[ast.stmt]) -> list[int]:
    """The statements of an epoch's block that train: loops with a step, and calls of functions with one."""
    trains = {getattr(scene.owner(e.stmt), "name", "") for e in scene.of(Kind.STEP)} - {""}
    found = []
    for i, stmt in enumerate(body):
        looped = isinstance(stmt, LOOPS) and any(scene.inside(e.stmt, stmt) for e in scene.of(Kind.STEP))
        value = getattr(stmt, "value", None) if isinstance(stmt, ast.Expr | ast.Assign) else None
        if looped or (isinstance(value, ast.Call) and dotted_tail(value.func) in trains):
            found.append(i)
    return found


MUTATIONS = {
    "GL101": gl101,
    "GL102": gl102,
    "GL401": gl401,
    "GL403": gl403,
    "GL404": gl404,
    "GL405": gl405,
    "GL406": gl406,
}
