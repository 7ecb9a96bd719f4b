"""Mutations of accumulation windows: GL103, GL205, GL301, GL305 and GL402."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .draft import Draft, crosses_definition
from .scene import Event, Kind, Scene, Window, text


def at_boundary(scene: Scene, kind: Kind) -> Iterator[tuple[Window, Event]]:
    """The events of a kind that happen once per window, behind its last backward, with no twin in the window."""
    for window in scene.windows:
        found = [e for _, e in scene.units(window.boundary, kind)]
        if window.test is None:
            end = window.loop.end_lineno or 0
            found = [e for e in found if e.stmt.lineno > end]
        twins = [e for e in scene.of(kind) if e not in found and scene.loop(e.stmt) is window.loop]
        if len({scene.unit(window.boundary, e.stmt) for e in found}) == 1 and not twins:
            yield window, found[0]


def every_micro_batch(scene: Scene, window: Window, event: Event) -> Draft | None:
    """Move an event of the boundary to behind each micro-batch's backward."""
    draft, unit = Draft(scene), scene.unit(window.boundary, event.stmt) or event.stmt
    if window.test is not None:
        if crosses_definition(scene, unit, window.test.lineno, unit.lineno):
            return None
        draft.insert_before(window.test, draft.lift(event, window.boundary, window.test.col_offset))
    else:
        last = scene.unit(window.loop.body, window.backwards[-1].stmt)
        if last is None or crosses_definition(scene, unit, window.loop.lineno, unit.lineno):
            return None
        draft.insert_after(last, draft.lift(event, window.boundary, last.col_offset))
    return draft


def gl103(scene: Scene) -> Iterator[Draft]:
    """Move a clip out of the boundary. Not under a scaler: that would inject GL207 as well."""
    for window, clip in at_boundary(scene, Kind.CLIP):
        if not any(b.scaler for b in window.backwards) and (draft := every_micro_batch(scene, window, clip)):
            yield draft


def gl205(scene: Scene) -> Iterator[Draft]:
    """Move unscale_ out of the boundary."""
    for window, unscale in at_boundary(scene, Kind.UNSCALE):
        if any(b.scaler for b in window.backwards) and (draft := every_micro_batch(scene, window, unscale)):
            yield draft


def undivided(scene: Scene, window: Window) -> tuple[Draft, str] | None:
    """Drop the division of the loss by the size of the window: the draft, and what it was divided by."""
    losses = {b.target for b in window.backwards}
    owned = {n for b in window.backwards for n in ast.walk(b.stmt)}
    whole, part = [], []
    for node in ast.walk(window.loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div) and text(node.target) in losses:
            whole += [node] if text(node.value) in window.sizes else [node, node]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            stmt = next(a for a in scene.ancestors(node) if isinstance(a, ast.stmt))
            made = isinstance(stmt, ast.Assign) and text(stmt.targets[0]) in losses
            if made or node in owned:
                part += [node] if text(node.right) in window.sizes else [node, node]
    if len(whole) + len(part) != 1:
        return None  # none, or more than one normalisation
    draft = Draft(scene).blame(window.backwards[0].stmt)
    home = scene.parent[part[0]] if part else None
    if whole:
        draft.delete(whole[0])
    elif isinstance(home, ast.Assign) and text(part[0].left) == text(home.targets[0]):
        draft.delete(home)
    else:
        draft.replace(part[0], text(part[0].left))
    return draft, text(whole[0].value if whole else part[0].right)


def gl301(scene: Scene) -> Iterator[Draft]:
    """Drop the division of the loss by the size of the window."""
    for window in scene.windows:
        if (found := undivided(scene, window)) is not None:
            yield found[0]


def gl305(scene: Scene) -> Iterator[Draft]:
    """Move scheduler.step() out of the boundary, to the end of each micro-batch."""
    for window, sched in at_boundary(scene, Kind.SCHEDULE):
        leaves = (ast.Continue, ast.Break, ast.Return)
        block: ast.AST = window.test or window.loop
        if sched.call.args or any(isinstance(n, leaves) for n in ast.walk(block)):
            continue
        if window.test is not None and window.test.orelse:
            continue
        last = window.test or window.loop.body[-1]
        if crosses_definition(scene, sched.stmt, block.lineno, sched.stmt.lineno):  # type: ignore[attr-defined]
            continue
        draft = Draft(scene)
        draft.insert_after(last, draft.lift(sched, window.boundary, last.col_offset))
        yield draft


def gl402(scene: Scene) -> Iterator[Draft]:
    """Move zero_grad from the boundary to the start of each micro-batch."""
    for window in scene.windows:
        stepped = {e.target for _, e in scene.units(window.boundary, Kind.STEP)}
        zeros = [e for _, e in scene.units(window.boundary, Kind.ZERO)]
        loose = [e for e in scene.of(Kind.ZERO) if scene.loop(e.stmt) is window.loop and e not in zeros]
        if len(zeros) != 1 or loose or not (zeros[0].target in stepped or len(stepped) == 1):
            continue
        zero, first = zeros[0], window.loop.body[0]
        last = max(zero.stmt.lineno, window.loop.end_lineno or 0)
        if scene.body[zero.stmt] is window.boundary and not crosses_definition(scene, zero.stmt, first.lineno, last):
            draft = Draft(scene)
            draft.insert_before(first, draft.lift(zero, window.boundary, first.col_offset))
            yield draft


MUTATIONS = {"GL103": gl103, "GL205": gl205, "GL301": gl301, "GL305": gl305, "GL402": gl402}
