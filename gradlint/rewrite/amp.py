"""Rewrites for mixed precision: unscaling, stepping and scaling through the user's own scaler."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Backward, Clip, Edit, Event, Read, Site, Step
from gradlint.rewrite.bench import NotFixable
from gradlint.rewrite.boundary import negated
from gradlint.rewrite.calls import call_of, loss_of, optimizer_of, receiver, scaler_of

if TYPE_CHECKING:
    from gradlint.rewrite.bench import Bench
    from gradlint.rewrite.document import Statement


def unscale(
    bench: Bench, before: Clip | Read | Edit, backward: Backward | None, step: Step | None, *, outer: int, wide: bool
) -> None:  # fmt: skip
    """`scaler.unscale_(optimizer)` in front; `outer`: in front of the call that leads there, so many functions out;
    `wide`: outside of the condition that it stands under."""
    if step is None:
        raise NotFixable("there is no step to take the optimizer's name from")
    source = step if step.scaler is not None else backward
    if source is None:
        raise NotFixable("there is no scaler to take the name from")
    code = f"{scaler_of(bench, source)}.unscale_({optimizer_of(bench, step)})"
    place = bench.statement(bench.outer(before, outer))
    if wide:
        # several clips, each under a condition of its own: the first `if` is where all of them are still to come
        for owner in list(place.ancestors()):
            if not isinstance(owner.node, cst.If | cst.With) or owner.holds(bench.statement(step)):
                break
            if any(isinstance(e, Backward) for e in bench.events_in(owner)):
                break
            place = owner
    new = bench.document.new(_conditional(bench, code, place, step), place.block)
    bench.document.put_before(new, place)


def _conditional(bench: Bench, code: str, place: Statement, step: Step) -> str:
    """`if use_amp: scaler.step(optimizer) else: …`: where the scaler works only with a flag, so must unscale_."""
    inside = bench.statement(step)
    guard = bench.statement(step.guard) if step.guard is not None else None
    for owner in inside.ancestors():
        if owner.holds(place) or isinstance(owner.node, cst.FunctionDef):
            break
        if not isinstance(owner.node, cst.If) or owner is guard or owner.node.orelse is None:
            continue
        test = owner.node.test
        bench.check_same_value(test, place, owner)
        in_body = any(x.holds(inside) for x in owner.blocks[0].items)
        return f"if {bench.code(test) if in_body else negated(bench, test)}:\n    {code}\n"
    return code


def step_through(bench: Bench, step: Step, backward: Backward) -> None:
    """`optimizer.step()` -> `scaler.step(optimizer)`."""
    call = call_of(bench, step)
    arguments = ", ".join(bench.code(a) for a in call.args)
    if arguments:
        raise NotFixable("a step with a closure cannot go through the scaler")
    bench.replace(call, f"{scaler_of(bench, backward)}.step({bench.code(receiver(call))})")


def update(bench: Bench, steps: Iterable[Step]) -> None:
    """`scaler.update()` behind the last of these steps."""
    last = list(steps)[-1]
    bench.insert(f"{scaler_of(bench, last)}.update()", after=last, past=(Step,))


def scale(bench: Bench, backwards: Iterable[Backward], step: Step) -> None:
    """`loss.backward()` -> `scaler.scale(loss).backward()`, for all that the step uses."""
    scaler = scaler_of(bench, step)
    for backward in {b.site: b for b in backwards}.values():
        loss = loss_of(bench, backward)
        bench.replace(loss, f"{scaler}.scale({_bare(bench, loss)})")


def _bare(bench: Bench, node: cst.BaseExpression) -> str:
    """Without parentheses of its own: it gets those of a call."""
    return bench.code(node.with_changes(lpar=(), rpar=()) if len(node.lpar) == 1 else node)


def leave_autocast(bench: Bench, backward: Event, autocast: Site) -> None:
    """The backward and what follows it leave the block; the forward stays in it."""
    block = bench.statement(autocast)
    if isinstance(block.node, cst.FunctionDef):
        raise NotFixable("autocast is a decorator of the whole function")
    if not isinstance(block.node, cst.With) or len(block.node.items) != 1:
        raise NotFixable("autocast shares its `with` with another context, or is no `with` block")
    first = next((x for x in bench.standing(backward) if block.holds(x) and x is not block), None)
    while first is not None and first.owner is not block:
        first = first.owner
    if first is None:
        raise NotFixable("the backward is in another function than the autocast block")
    inside = block.blocks[0].items
    at = inside.index(first)
    if at == 0:
        raise NotFixable("nothing would be left in the autocast block")
    following = inside[at:]
    if any(isinstance(e, Backward) for x in following[1:] for e in bench.events_in(x)):
        raise NotFixable("another forward follows inside the block")
    for item in reversed(following):
        bench.document.take_out(item, keep_lines=True)
        bench.document.put_after(item, block, keep_lines=True)
