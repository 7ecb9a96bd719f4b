"""Mutations of how a call or a condition is written: GL104, GL106, GL110, GL210, GL304, GL308, GL505, GL901."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .draft import Draft, Moved
from .gradients import torch_name
from .scene import Event, Kind, Scene, Window, dotted_tail, text

NORM_CLIP = "clip_grad_norm_"


def renamed_clip(scene: Scene, clip: Event, new: str, arguments: str | None = None) -> Draft | None:
    """Call another clip function; the import follows where it names the old one."""
    draft, func = Draft(scene).blame(clip.stmt), clip.call.func
    said = text(func)
    imports = [a for n in ast.walk(scene.tree) if isinstance(n, ast.ImportFrom) for a in n.names if a.name == NORM_CLIP]
    if isinstance(func, ast.Attribute) and func.attr == NORM_CLIP:
        said = f"{text(func.value)}.{new}"
    elif len(imports) == 1 and sum(e.kind is Kind.CLIP for e in scene.events) == 1:
        said = imports[0].asname or new
        draft.replace(imports[0], f"{new} as {said}" if imports[0].asname else new)
    else:
        return None
    draft.replace(clip.call, f"{said}({arguments if arguments is not None else _arguments(clip.call)})")
    return draft


def _arguments(call: ast.Call, leave_out: ast.AST | None = None) -> str:
    keywords = [k for k in call.keywords if k.value is not leave_out]
    given = [text(a) for a in call.args if a is not leave_out]
    return ", ".join([*given, *(f"{k.arg}={text(k.value)}" if k.arg else f"**{text(k.value)}" for k in keywords)])


def gl104(scene: Scene) -> Iterator[Draft]:
    """Clip each value on its own. Nobody may ask for the norm."""
    for clip in scene.of(Kind.CLIP):
        limit = [*clip.call.args[1:], *(k.value for k in clip.call.keywords if k.arg == "max_norm")]
        if isinstance(clip.stmt, ast.Expr) and len(limit) == 1:
            draft = renamed_clip(scene, clip, "clip_grad_value_", f"{clip.target}, {text(limit[0])}")
            if draft is not None:
                yield draft


def gl106(scene: Scene) -> Iterator[Draft]:
    """One generator of parameters for the optimizer and the clip."""
    for stmt in scene.body:
        built = stmt.value if isinstance(stmt, ast.Assign) else None
        if not isinstance(stmt, ast.Assign) or not isinstance(built, ast.Call) or not built.args:
            continue
        made, params = text(stmt.targets[0]), built.args[0]
        for clip in scene.of(Kind.CLIP) if made in scene.optimizers and text(params).endswith(".parameters()") else []:
            near = scene.owner(clip.stmt) is scene.owner(stmt)
            if clip.target != text(params) or not (near or made.startswith("self.")):
                continue
            draft, name = Draft(scene).blame(clip.stmt), "params" if near else "self.params"
            indent = stmt.col_offset
            draft.insert_before(stmt, Moved([" " * indent + f"{name} = {text(params)}"]), blame=False)
            draft.replace(params, name)
            draft.replace(clip.call.args[0], name)
            yield draft


def gl110(scene: Scene) -> Iterator[Draft]:
    """Call the clip without its underscore."""
    for clip in scene.of(Kind.CLIP):
        draft = renamed_clip(scene, clip, NORM_CLIP[:-1])
        if draft is not None:
            yield draft


def gl210(scene: Scene) -> Iterator[Draft]:
    """The classes for CUDA instead of those for any device."""
    torch, calls = torch_name(scene), [n for n in ast.walk(scene.tree) if isinstance(n, ast.Call)]
    for call in calls:
        name = dotted_tail(call.func)
        if name in ("autocast", "GradScaler") and text(call.func) in (f"{torch}.{name}", f"{torch}.amp.{name}"):
            draft = Draft(scene).blame(call)
            if _without_device(draft, call, f"{torch}.cuda.amp.{name}"):
                yield draft
    for node in ast.walk(scene.tree):
        if isinstance(node, ast.ImportFrom) and node.module == "torch.amp":
            names = {a.asname or a.name for a in node.names}
            mine = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id in names]
            draft = Draft(scene)
            draft.replace(node, text(node).replace("torch.amp", "torch.cuda.amp"))
            if mine and all(_without_device(draft.blame(c), c, text(c.func)) for c in mine):
                yield draft


def _without_device(draft: Draft, call: ast.Call, name: str) -> bool:
    """Write a call for CUDA without saying so; not if it is for another device."""
    said = [*call.args[:1], *(k.value for k in call.keywords if k.arg in ("device", "device_type"))]
    if len(said) != 1 or not isinstance(said[0], ast.Constant) or said[0].value != "cuda":
        return False
    draft.replace(call, f"{name}({_arguments(call, said[0])})")
    return True


def conditions(scene: Scene, window: Window) -> Iterator[ast.AST]:
    """The parts of a boundary's condition, those of the names in it included."""
    if window.test is None:
        return
    yield from ast.walk(window.test.test)
    names = {text(n) for n in ast.walk(window.test.test) if isinstance(n, ast.Name | ast.Attribute)}
    for node in ast.walk(window.loop):
        if isinstance(node, ast.Assign) and text(node.targets[0]) in names:
            yield from ast.walk(node.value)


def gl304(scene: Scene) -> Iterator[Draft]:
    """Forget the loader's last, shorter window."""
    for window in scene.windows:
        for node in conditions(scene, window):
            if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and "%" in text(node.values[0]):
                draft = Draft(scene)
                for _, step in scene.units(window.boundary, Kind.STEP):
                    draft.blame(step.stmt)
                draft.replace(node, text(node.values[0]))
                yield draft


def gl308(scene: Scene) -> Iterator[Draft]:
    """Count the first micro-batch as a whole window."""
    for window in scene.windows:
        counted = window.loop.iter if isinstance(window.loop, ast.For) else None
        if not isinstance(counted, ast.Call) or text(counted.func) != "enumerate" or len(counted.args) != 1:
            continue
        for node in conditions(scene, window):
            left = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) else None
            if isinstance(node, ast.BinOp) and isinstance(left, ast.BinOp) and text(left).endswith(" + 1"):
                draft = Draft(scene)
                for _, step in scene.units(window.boundary, Kind.STEP):
                    draft.blame(step.stmt)
                draft.replace(node, f"{text(left.left)} % {text(node.right)}")
                yield draft


def gl505(scene: Scene) -> Iterator[Draft]:
    """Shard a model that is clipped by torch's function."""
    clips, torch = scene.of(Kind.CLIP), torch_name(scene)
    wrapped = [n for n in ast.walk(scene.tree) if isinstance(n, ast.Call) and _is_ddp(n.func)]
    if len(clips) != 1 or len(wrapped) != 1 or not wrapped[0].args or torch is None:
        return
    draft = Draft(scene).blame(clips[0].stmt)
    draft.right = Draft(scene).blame(clips[0].stmt)
    model, call = clips[0].target.removesuffix(".parameters()"), clips[0].call
    draft.right.replace(call, f"{model}.clip_grad_norm_({_arguments(call, call.args[0])})")
    for sharded in (draft, draft.right):
        sharded.replace(wrapped[0], f"{torch}.distributed.fsdp.FullyShardedDataParallel({text(wrapped[0].args[0])})")
    yield draft


def _is_ddp(func: ast.expr) -> bool:
    return dotted_tail(func) in ("DistributedDataParallel", "DDP")


def gl901(scene: Scene) -> Iterator[Draft]:
    """Silence what is not there."""
    for step in scene.of(Kind.STEP):
        draft, last = Draft(scene).blame(step.stmt), (step.stmt.end_lineno or step.stmt.lineno) - 1
        if "#" not in draft.lines[last]:
            draft.kept[last] = draft.lines[last] + "  # gradlint: ignore[GL101]"
            yield draft


MUTATIONS = {
    "GL104": gl104,
    "GL106": gl106,
    "GL110": gl110,
    "GL210": gl210,
    "GL304": gl304,
    "GL308": gl308,
    "GL505": gl505,
    "GL901": gl901,
}
