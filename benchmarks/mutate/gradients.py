"""Mutations that add statements about gradients or indent one: GL111, GL112, GL208, GL211, GL213, GL302, GL504."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .draft import Draft, Moved
from .scene import Event, Kind, Scene, text
from .windows import undivided

#: an update that is split over functions may end a window that is not seen as one
ACCUMULATES = re.compile(r"accum|no_sync")


def torch_name(scene: Scene) -> str | None:
    """What this file calls torch."""
    aliases = [a for n in ast.walk(scene.tree) if isinstance(n, ast.Import) for a in n.names if a.name == "torch"]
    return aliases[0].asname or "torch" if aliases else None


def parameters(scene: Scene, step: Event) -> str | None:
    """The parameters of a step's optimizer, as the clip of its function or the optimizer itself names them."""
    owner = scene.owner(step.stmt)
    named = [c.target for c in scene.of(Kind.CLIP) if scene.owner(c.stmt) is owner]
    built = scene.optimizers.get(step.target, "")
    named += [built] if built.startswith("self.") else []
    named = [name for name in named if name.endswith(".parameters()")]
    return named[0] if len(set(named)) == 1 else None


def update_of(scene: Scene) -> Iterator[tuple[Event, list[ast.stmt], ast.stmt]]:
    """Each step of a file with one optimizer, its block, and the first statement there that prepares or makes it."""
    steps = scene.of(Kind.STEP)
    if len(steps) == 1:
        body = scene.body[steps[0].stmt]
        events = scene.units(body, Kind.UNSCALE, Kind.CLIP, Kind.STEP)
        yield steps[0], body, body[min(i for i, _ in events)]


def each(params: str, code: str, indent: int) -> Moved:
    """A loop over the parameters with one statement about each."""
    return Moved([" " * indent + f"for p in {params}:", " " * (indent + 4) + code], 1)


def measured(params: str, indent: int) -> Moved:
    return Moved([" " * indent + f'print("norm", sum(p.grad.norm() for p in {params}))'])


def gl111(scene: Scene) -> Iterator[Draft]:
    """Add noise between the clip and the step."""
    torch = torch_name(scene)
    for clip in scene.of(Kind.CLIP):
        if torch is not None and clip.target.endswith(".parameters()"):
            noise = f"p.grad.add_({torch}.randn_like(p.grad), alpha=0.01)"
            draft, draft.right = Draft(scene), Draft(scene)
            draft.insert_after(clip.stmt, each(clip.target, noise, clip.stmt.col_offset))
            draft.right.insert_before(clip.stmt, each(clip.target, noise, clip.stmt.col_offset))
            yield draft


def gl112(scene: Scene) -> Iterator[Draft]:
    """Print the norm between the clip and the step."""
    for clip in scene.of(Kind.CLIP):
        if clip.target.endswith(".parameters()") and "value" not in text(clip.call.func):
            draft = Draft(scene)
            draft.insert_after(clip.stmt, measured(clip.target, clip.stmt.col_offset))
            yield draft


def gl208(scene: Scene) -> Iterator[Draft]:
    """Indent the backward into the autocast block that it follows."""
    for back in scene.of(Kind.BACKWARD):
        body = scene.body[back.stmt]
        at = next(i for i, s in enumerate(body) if s is back.stmt)
        block = body[at - 1] if at else None
        if isinstance(block, ast.With) and "autocast" in text(block.items[0].context_expr):
            last, draft = block.body[-1], Draft(scene)
            draft.insert_after(last, Moved(draft.written(back.stmt, last.col_offset)))
            draft.delete(back.stmt)
            yield draft


def gl211(scene: Scene) -> Iterator[Draft]:
    """Print the norm before the gradients are unscaled. Who asks for the scale divides by it."""
    for unscale in scene.of(Kind.UNSCALE) if "get_scale" not in scene.source else []:
        params = parameters(scene, unscale)
        if params is not None:
            draft = Draft(scene)
            draft.insert_before(unscale.stmt, measured(params, unscale.stmt.col_offset))
            yield draft


def gl213(scene: Scene) -> Iterator[Draft]:
    """Update the scaler twice."""
    for update in scene.of(Kind.UPDATE):
        draft = Draft(scene)
        draft.insert_after(update.stmt, Moved(draft.written(update.stmt, update.stmt.col_offset)))
        yield draft


def gl302(scene: Scene) -> Iterator[Draft]:
    """Divide the gradients instead of the loss: on each micro-batch, and at a boundary that is a modulo."""
    for step, body, first in update_of(scene):
        params = parameters(scene, step)
        for window in (w for w in scene.windows if w.boundary is body and params is not None):
            places = [window.backwards[0].stmt] if len(window.backwards) == 1 else []
            places += [first] if window.test is not None and "%" in text(window.loop) else []
            for place in places:
                if (found := undivided(scene, window)) is not None:
                    draft, divisor = found
                    loop = each(str(params), f"p.grad /= {divisor}", place.col_offset)
                    (draft.insert_before if place is first else draft.insert_after)(place, loop)
                    yield draft


def gl504(scene: Scene) -> Iterator[Draft]:
    """Wrap the model in DDP, and reduce its gradients by hand as well. Under `no_sync` that may be right."""
    torch = torch_name(scene)
    if torch is None or scene.windows or ACCUMULATES.search(scene.source):
        return
    for step, _, first in update_of(scene):
        if any(scene.loop(b.stmt) is not scene.loop(step.stmt) for b in scene.of(Kind.BACKWARD)):
            continue  # micro-batches in a loop of their own: DDP would want no_sync there
        params = parameters(scene, step)
        built = next((s for s in scene.body if isinstance(s, ast.Assign) and text(s.targets[0]) == step.target), None)
        model = scene.optimizers.get(step.target, "").removesuffix(".parameters()")
        if built is None or params != f"{model}.parameters()":
            continue
        if scene.owner(built) is not scene.owner(step.stmt) and not model.startswith("self."):
            continue
        wrapped = f"{model} = {torch}.nn.parallel.DistributedDataParallel({model})"
        draft, draft.right = Draft(scene), Draft(scene)
        draft.right.insert_before(built, Moved([" " * built.col_offset + wrapped]))
        draft.insert_before(built, Moved([" " * built.col_offset + wrapped]), blame=False)
        draft.insert_before(first, each(params, f"{torch}.distributed.all_reduce(p.grad)", first.col_offset))
        yield draft


MUTATIONS = {
    "GL111": gl111,
    "GL112": gl112,
    "GL208": gl208,
    "GL211": gl211,
    "GL213": gl213,
    "GL302": gl302,
    "GL504": gl504,
}
