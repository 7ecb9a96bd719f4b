"""Mistakes in helpers: what a mutation broke is put into a function, a method or a closure, with its surroundings.

Who mends such a mutant must see through the call: to move the call is to move all that the helper does. Two sources:

- the mutants of the other modules: the broken statement, together with the backward or with what stands next to it,
  becomes a helper's body, and its names become arguments and results;
- helpers that are there: an event that waits for the end of a window, behind a flag of the helper or in the loop that
  calls it, happens with every micro-batch instead (GL103, GL205, GL305, GL402).
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from .draft import Draft, Moved, crosses_definition
from .scene import LOOPS, Event, Kind, Scene, dotted_tail, text

NAME = "handle_batch"
_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp, ast.GeneratorExp)
_PLAIN = (ast.Expr, ast.Assign, ast.AugAssign)
#: what becomes another mistake when it happens with every micro-batch
_TOO_OFTEN = {Kind.CLIP: "GL103", Kind.UNSCALE: "GL205", Kind.SCHEDULE: "GL305", Kind.ZERO: "GL402"}


def extracted(mutant: str, line: int) -> Iterator[tuple[str, int]]:
    """The mutant with the statement to blame in a helper: beside the backward, and beside its neighbour."""
    scene = Scene(mutant)
    blamed = next((s for s in scene.body if s.lineno == line and isinstance(s, _PLAIN)), None)
    if blamed is None:
        return
    block = scene.body[blamed]
    at = next(i for i, s in enumerate(block) if s is blamed)
    backs = [i for i, _ in scene.units(block, Kind.BACKWARD) if not isinstance(block[i], LOOPS)]
    ranges = [(min(at, back), max(at, back)) for back in backs if back != at]
    ranges += [(at - 1, at)] if at and isinstance(block[at - 1], _PLAIN) else []
    ranges += [(at, at + 1)] if at + 1 < len(block) and isinstance(block[at + 1], _PLAIN) else []
    for number, (first, last) in enumerate(dict.fromkeys(ranges)):
        if (found := _cut_out(scene, block[first : last + 1], blamed, closure=number % 2 == 1)) is not None:
            yield found


def _cut_out(scene: Scene, part: list[ast.stmt], blamed: ast.stmt, *, closure: bool) -> tuple[str, int] | None:
    """The text with these statements in a helper; None where that would change what they do."""
    if scene.loop(part[0]) is None or any(isinstance(n, (*_LEAVES, *_NESTED)) for s in part for n in ast.walk(s)):
        return None
    draft, owner = Draft(scene), scene.owner(part[0])
    spans = [draft.span(stmt) for stmt in part]
    if draft.refused or any(draft.lines[i].lstrip().startswith("elif") for span in spans for i in span):
        return None
    given, results = _traffic(scene, part, owner)
    if any(name not in _bound_before(scene, part[0], owner) for name in given):
        return None
    in_class = isinstance(scene.parent.get(owner), ast.ClassDef)
    home = _outermost_loop(scene, part[0]) if closure and not in_class else _top(scene, owner, part[0])
    if home is None or home.lineno != _first_line(home) or scene.body[home] is part:
        return None
    if closure and not in_class:
        given = [name for name in given if name in _bound(home) or name in results]
    own = "self." if in_class and "self" in given else ""
    given = [name for name in given if not (own and name == "self")]
    if in_class and not own:
        return None
    indent, inner = " " * home.col_offset, " " * (home.col_offset + 4)
    heading = f"{indent}def {NAME}({', '.join([*(['self'] if own else []), *given])}):"
    first, last = spans[0][0], spans[-1][-1]
    body = [inner + line[part[0].col_offset :] if line.strip() else "" for line in draft.lines[first : last + 1]]
    returned = [f"{inner}return {', '.join(results)}"] if results else []
    helper = [heading, *body, *returned, *([""] if home.col_offset else ["", ""])]
    call = f"{own}{NAME}({', '.join(given)})"
    call = " " * part[0].col_offset + (f"{', '.join(results)} = {call}" if results else call)
    for i in range(first, last + 1):
        draft.kept[i] = None
    draft.insert(home.lineno - 1, Moved(helper, 1 + blamed.lineno - 1 - first), blame=True)
    draft.insert(first, Moved([call]), blame=False)
    try:
        return draft.render()
    except SyntaxError:
        return None


def _first_line(stmt: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(stmt, "decorator_list", [])
    return min([stmt.lineno, *(d.lineno for d in decorators)])


def _outermost_loop(scene: Scene, stmt: ast.stmt) -> ast.stmt | None:
    loops = [a for a in scene.ancestors(stmt) if isinstance(a, LOOPS)]
    return loops[-1] if loops else None


def _top(scene: Scene, owner: ast.AST, stmt: ast.stmt) -> ast.stmt | None:
    """Before which the helper stands: the method, or the statement of the module that holds the function."""
    if isinstance(scene.parent.get(owner), ast.ClassDef):
        return owner if isinstance(owner, ast.stmt) else None
    node: ast.AST = stmt
    while not isinstance(scene.parent[node], ast.Module):
        node = scene.parent[node]
    return node if isinstance(node, ast.stmt) else None


def _bound(node: ast.AST) -> set[str]:
    """The names that statements under this one bind."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    found |= {a.arg for a in ast.walk(node) if isinstance(a, ast.arg)}
    found |= {n.name for n in ast.walk(node) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    aliases = [a for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names]
    return found | {(a.asname or a.name).split(".")[0] for a in aliases}


def _bound_before(scene: Scene, stmt: ast.stmt, owner: ast.AST) -> set[str]:
    """The names that have a value when the statement begins for the first time."""
    found = {a.arg for a in ast.walk(scene.tree) if isinstance(a, ast.arg)}
    stores = [n for n in ast.walk(scene.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    inner = [n for n in ast.walk(owner) if isinstance(n, ast.FunctionDef) and n is not owner]
    return found | {n.id for n in stores if n.lineno < stmt.lineno} | {n.name for n in inner}


def _traffic(scene: Scene, part: list[ast.stmt], owner: ast.AST) -> tuple[list[str], list[str]]:
    """The names that the statements need, and those that others need of them."""
    everywhere = {
        name
        for stmt in scene.tree.body
        for name in (_bound(stmt) if isinstance(stmt, ast.Import | ast.ImportFrom) else {getattr(stmt, "name", "")})
    }
    if not isinstance(owner, ast.Module):
        plain = [s for s in scene.tree.body if isinstance(s, ast.Assign | ast.AnnAssign)]
        everywhere |= {name for stmt in plain for name in _bound(stmt)} - _bound(owner)
    inside = {n for s in part for n in ast.walk(s)}
    read: dict[str, None] = {}
    written: dict[str, None] = {}
    for node, certain in _in_order(part):
        names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
        reads = [n.id for n in names if isinstance(n.ctx, ast.Load) or not certain]
        read |= dict.fromkeys(name for name in reads if name not in written)
        written |= dict.fromkeys(n.id for n in names if not isinstance(n.ctx, ast.Load))
    given = [name for name in read if name not in everywhere and not hasattr(builtins, name)]
    rest = {
        n.id for n in ast.walk(owner) if isinstance(n, ast.Name) and n not in inside and isinstance(n.ctx, ast.Load)
    }
    return given, [name for name in written if name in rest or name in given]


def _in_order(part: list[ast.stmt]) -> Iterator[tuple[ast.AST, bool]]:
    """Statements, blocks of `with` opened, and whether they bind their names for certain, without asking for them."""
    for stmt in part:
        if isinstance(stmt, ast.With):
            yield from ((item, True) for item in stmt.items)
            yield from _in_order(stmt.body)
        else:
            yield stmt, isinstance(stmt, ast.Expr | ast.Assign)


def unguarded(scene: Scene) -> Iterator[tuple[str, Draft]]:
    """An event behind a flag of its helper, which also runs the backward, no longer asks for the flag."""
    for event in scene.of(*_TOO_OFTEN):
        owner, guard = scene.owner(event.stmt), scene.parent[event.stmt]
        flags = {a.arg for a in ast.walk(owner) if isinstance(a, ast.arg)}
        backs = [
            b for b in scene.of(Kind.BACKWARD) if scene.owner(b.stmt) is owner and b.stmt.lineno < event.stmt.lineno
        ]
        if not isinstance(guard, ast.If) or text(guard.test) not in flags or guard.orelse or not backs:
            continue
        if event.kind is Kind.CLIP and any(b.scaler for b in backs):
            continue  # scaled gradients would be clipped as well
        if scene.body[guard] is scene.body.get(backs[-1].stmt):
            draft = Draft(scene)
            draft.insert_before(guard, draft.lift(event, guard.body, guard.col_offset))
            yield _TOO_OFTEN[event.kind], draft


def every_call(scene: Scene) -> Iterator[tuple[str, Draft]]:
    """An event of the boundary happens with every call of the helper that runs the backward."""
    holds = {getattr(scene.owner(b.stmt), "name", "") for b in scene.of(Kind.BACKWARD)} - {""}
    for event in scene.of(Kind.CLIP, Kind.SCHEDULE, Kind.ZERO):
        guard = scene.parent[event.stmt]
        if not isinstance(guard, ast.If) or guard.orelse or scene.loop(guard) is None:
            continue
        body = scene.body[guard]
        before = body[: next(i for i, s in enumerate(body) if s is guard)]
        calls = [s for s in before if isinstance(s, ast.Expr | ast.Assign) and _called(s) & holds]
        direct = [e for e in scene.of(Kind.BACKWARD) if any(scene.inside(e.stmt, s) for s in before)]
        if not calls or direct or not _steps(scene, guard):
            continue
        place = calls[0] if event.kind is Kind.ZERO else guard
        if not crosses_definition(scene, event.stmt, place.lineno, event.stmt.lineno):
            draft = Draft(scene)
            draft.insert_before(place, draft.lift(event, guard.body, place.col_offset))
            yield _TOO_OFTEN[event.kind], draft


def _called(stmt: ast.AST) -> set[str]:
    return {dotted_tail(n.func) for n in ast.walk(stmt) if isinstance(n, ast.Call)}


def _steps(scene: Scene, guard: ast.If) -> bool:
    steps: list[Event] = scene.of(Kind.STEP)
    names = {getattr(scene.owner(e.stmt), "name", "") for e in steps} - {""}
    return any(scene.inside(e.stmt, guard) for e in steps) or bool(_called(guard) & names)
