"""Mutations of DDP's gradient synchronisation in accumulation windows: GL501 to GL503."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .draft import Draft, Moved
from .scene import Scene, Window, text

DDP = re.compile(r"\bDistributedDataParallel\b|\bDDP\b")
FSDP = re.compile(r"\bFSDP\b|FullyShardedDataParallel|fully_shard")
NO_CONTEXT = re.compile(r"(null|empty|dummy)_?context|suppress\(\)|ExitStack\(\)", re.IGNORECASE)


def no_sync(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "no_sync" for n in ast.walk(node))


def window_of(scene: Scene, node: ast.AST) -> Window | None:
    """The window round a statement, or the file's only one when a helper makes the context."""
    round_it = [w for w in scene.windows if scene.inside(node, w.loop)]
    return round_it[0] if round_it else scene.windows[0] if len(scene.windows) == 1 else None


def choices(scene: Scene) -> Iterator[tuple[ast.IfExp, Window]]:
    """`model.no_sync() if … else nullcontext()`, called or not, either way round."""
    for node in ast.walk(scene.tree):
        if isinstance(node, ast.IfExp) and no_sync(node.body) != no_sync(node.orelse):
            plain = node.orelse if no_sync(node.body) else node.body
            window = window_of(scene, node)
            if window is not None and NO_CONTEXT.search(text(plain)):
                yield node, window


def branches(scene: Scene) -> Iterator[tuple[ast.If, ast.Assign, ast.Assign, Window]]:
    """`if …: ctx = model.no_sync()`, `else: ctx = nullcontext()`, either way round: the `if` and both assignments."""
    for node in ast.walk(scene.tree):
        if isinstance(node, ast.If) and len(node.body) == len(node.orelse) == 1:
            one, other = node.body[0], node.orelse[0]
            window = window_of(scene, node)
            if window is not None and isinstance(one, ast.Assign) and isinstance(other, ast.Assign):
                synced, plain = (one, other) if no_sync(one.value) else (other, one)
                if no_sync(synced.value) and NO_CONTEXT.search(text(plain.value)):
                    yield node, synced, plain, window


def guards(scene: Scene) -> Iterator[tuple[ast.If, Window]]:
    """`if …: stack.enter_context(model.no_sync())`."""
    for node in ast.walk(scene.tree):
        if isinstance(node, ast.If) and not node.orelse and len(node.body) == 1 and isinstance(node.body[0], ast.Expr):
            window = window_of(scene, node)
            if window is not None and no_sync(node.body[0]):
                yield node, window


def switches(scene: Scene) -> Iterator[tuple[ast.Assign, Window]]:
    """`model.require_backward_grad_sync = …`, in the loop."""
    for node in ast.walk(scene.tree):
        if isinstance(node, ast.Assign) and text(node.targets[0]).endswith(".require_backward_grad_sync"):
            window = window_of(scene, node)
            if window is not None and not isinstance(node.value, ast.Constant):
                yield node, window


def negated(test: ast.expr) -> str:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return text(test.operand)
    return f"not {text(test)}" if isinstance(test, ast.Name | ast.Attribute | ast.Call) else f"not ({text(test)})"


def gl501(scene: Scene) -> Iterator[Draft]:
    """Sync on every micro-batch."""
    if not DDP.search(scene.source) and not FSDP.search(scene.source):
        return
    for choice, window in choices(scene):
        draft = Draft(scene).blame(window.backwards[0].stmt)
        draft.replace(choice, text(choice.orelse if no_sync(choice.body) else choice.body))
        yield draft
    for _, one, other, window in branches(scene):
        draft = Draft(scene).blame(window.backwards[0].stmt)
        draft.replace(one.value, text(other.value))
        yield draft
    for stmt, window in [*guards(scene), *switches(scene)]:
        draft = Draft(scene).blame(window.backwards[0].stmt)
        draft.delete(stmt)
        yield draft


def gl502(scene: Scene) -> Iterator[Draft]:
    """Leave only the backward inside no_sync. DDP reads its flag in the forward; FSDP does not."""
    if not DDP.search(scene.source) or FSDP.search(scene.source):
        return
    stored = {text(n.targets[0]) for n in ast.walk(scene.tree) if isinstance(n, ast.Assign) and no_sync(n.value)}
    for window in scene.windows:
        for block in (n for n in ast.walk(window.loop) if isinstance(n, ast.With) and len(n.items) == 1):
            entered = block.items[0].context_expr
            name = entered.func if isinstance(entered, ast.Call) and not no_sync(entered) else entered
            back = scene.unit(block.body, window.backwards[0].stmt)
            if not (no_sync(entered) or text(name) in stored) or back is None or isinstance(back, ast.With):
                continue
            outside = block.body[: next(i for i, s in enumerate(block.body) if s is back)]
            if not any(isinstance(n, ast.Call) for s in outside for n in ast.walk(s)):
                continue
            draft = Draft(scene).blame(block)
            for stmt in outside:
                draft.insert_before(block, Moved(draft.written(stmt, block.col_offset)), blame=False)
                draft.delete(stmt)
            yield draft


def gl503(scene: Scene) -> Iterator[Draft]:
    """Sync on all micro-batches but the one of the step."""
    if not DDP.search(scene.source) and not FSDP.search(scene.source):
        return
    tests = [(c.test, w) for c, w in choices(scene)] + [(b.test, w) for b, _, _, w in branches(scene)]
    tests += [(g.test, w) for g, w in guards(scene)] + [(s.value, w) for s, w in switches(scene)]
    for test, window in tests:
        draft = Draft(scene).blame(window.backwards[0].stmt)
        draft.replace(test, negated(test))
        yield draft


MUTATIONS = {"GL501": gl501, "GL502": gl502, "GL503": gl503}
