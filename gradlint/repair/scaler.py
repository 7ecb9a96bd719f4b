"""Rewrites for mixed precision: unscaling, stepping and scaling through the user's own scaler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Backward, Clip, Edit, Event, Read, Site, Step, Update
from gradlint.repair.arguments import call_of, loss_of, optimizer_of, receiver, scaler_of
from gradlint.repair.boundary import negated
from gradlint.repair.nodes import NotFixable, bare, called, within
from gradlint.repair.statements import landing, move

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench
    from gradlint.repair.tree import Statement


def insert_unscale(
    bench: Bench, before: Clip | Read | Edit, backward: Backward | None, steps: Sequence[Step], *, outer: int = 0,
    wide: bool = False,
) -> None:  # fmt: skip
    """`scaler.unscale_(optimizer)` in front; `outer`: in front of the call that leads there, so many functions out;
    `wide`: outside of the condition that it stands under."""
    if not steps:
        raise NotFixable("there is no step to take the optimizer's name from")
    place = _once(bench, bench.statement(bench.outer(before, outer)), steps[0], wide=wide)
    node = bench.node(bench.outer(before, outer))
    if isinstance(place.node, cst.SimpleStatementLine):
        place = bench.document.apart(place, node)
    for step in steps:
        source = step if step.scaler is not None else backward
        if source is None:
            raise NotFixable("there is no scaler to take the name from")
        code = f"{scaler_of(bench, source)}.unscale_({optimizer_of(bench, step)})"
        new = bench.document.new(_conditional(bench, code, place, step, backward), place.block)
        bench.document.join_before(new, place)


def _once(bench: Bench, place: Statement, step: Step, *, wide: bool) -> Statement:
    """Out of loops that would unscale again and again (over parameters, groups); `wide`: out of conditions, too."""
    for owner in place.around(bench.statement(step)):
        if isinstance(owner.node, cst.Try | cst.TryStar):
            raise NotFixable("a handler could go on without the update")
        if any(isinstance(e, Backward) for e in bench.events_in(owner)):
            break
        if isinstance(owner.node, cst.For | cst.While) or wide:
            place = owner
    return place


def _conditional(bench: Bench, code: str, place: Statement, step: Step, backward: Backward | None) -> str:
    """`if use_amp: scaler.step(optimizer) else: …`: where the scaler works only with a flag, so must unscale_."""
    inside = bench.statement(step)
    round_it = bench.statement(backward).ancestors() if backward is not None else ()
    asked = {bench.code(x.node.test) for x in round_it if isinstance(x.node, cst.If)}
    for owner in inside.around(place):
        if not isinstance(owner.node, cst.If) or owner in bench.guards():
            continue
        test = owner.node.test
        if owner.node.orelse is None and bench.code(test) not in asked:
            continue
        bench.check_same_value(test, place, owner)
        return f"if {_asked_by(bench, owner, inside)}:\n    {code}\n"
    return code


def _asked_by(bench: Bench, choice: Statement, inside: Statement) -> str:
    """The condition under which a statement inside an `if` runs."""
    test = choice.node.test
    return bench.code(test) if any(x.holds(inside) for x in choice.blocks[0].items) else negated(bench, test)


def step_through_scaler(bench: Bench, step: Step, backward: Backward, updates: Sequence[Update]) -> None:
    """`optimizer.step()` -> `scaler.step(optimizer)`; an update() that came too early follows it."""
    call = call_of(bench, step)
    if call.args:
        raise NotFixable("a step with a closure cannot go through the scaler")
    scaler = scaler_of(bench, backward)
    code = f"{scaler}.step({bench.code(receiver(call))})"
    choice = _choice_round(bench.statement(backward), bench.statement(step))
    if choice is not None:
        _step_in_arms(bench, step, choice, f"{code}\n    {scaler}.update()", bench.statement(backward))
        return
    bench.replace(call, code)
    for update in updates:
        move(bench, update, after=step)


def _choice_round(made: Statement, used: Statement) -> Statement | None:
    """The flag under which the loss is scaled, if the step does not hang on it."""
    return next((x for x in made.around(used) if isinstance(x.node, cst.If)), None)


def _step_in_arms(bench: Bench, step: Step, choice: Statement, code: str, made: Statement) -> None:
    """Through the scaler where the loss was scaled, and as it was where it was not."""
    plain = bench.statement(step)
    if not isinstance(plain.node, cst.SimpleStatementLine) or len(plain.node.body) != 1:
        raise NotFixable("the step shares its line with something else")
    bench.check_same_value(choice.node.test, choice, plain)
    both = bench.document.new(f"if {_asked_by(bench, choice, made)}:\n    {code}\nelse:\n    pass\n", plain.block)
    bench.document.put_before(both, plain)
    bench.document.take_out(plain)
    bench.document.fill(both.blocks[1], plain)


def insert_update(bench: Bench, steps: Sequence[Step], *, outer: int = 0, wide: bool = False) -> None:
    """`scaler.update()` behind the last of these steps; `wide`: outside of its condition."""
    last = steps[-1]
    anchor = bench.alone(bench.outer(last, outer))
    for owner in list(anchor.ancestors()):
        if isinstance(owner.node, cst.For) and not any(isinstance(e, Backward) for e in bench.events_in(owner)):
            anchor = owner  # a loop over optimizers: one update for all
    if wide:
        anchor = landing(bench, anchor, None, last, in_front=False)
    anchor = bench.past(anchor, (Step,))
    bench.insert_behind(f"{scaler_of(bench, last)}.update()", anchor)


def scale_losses(bench: Bench, backwards: Iterable[Backward], step: Step) -> None:
    """`loss.backward()` -> `scaler.scale(loss).backward()`, for all that the step uses."""
    scaler = scaler_of(bench, step)
    for backward in {b.site: b for b in backwards}.values():
        loss = loss_of(bench, backward)
        bench.replace(loss, _call_on(f"{scaler}.scale", loss))


def _call_on(function: str, node: cst.BaseExpression) -> cst.Call:
    """The call with the expression as its argument; parentheses round it become those of the call, lines and all."""
    func = cst.parse_expression(function)
    if len(node.lpar) != 1:
        return cst.Call(func, [cst.Arg(node)])
    inside = cst.Arg(bare(node), whitespace_after_arg=node.rpar[0].whitespace_before)
    return cst.Call(func, [inside], whitespace_before_args=node.lpar[0].whitespace_after)


def leave_autocast(bench: Bench, backward: Event, autocast: Site) -> None:
    """The backward and what follows it leave the block; the forward stays in it."""
    block = _entered(bench, backward, bench.statement(autocast))
    if isinstance(block.node, cst.FunctionDef):
        raise NotFixable("autocast is a decorator of the whole function")
    if not isinstance(block.node, cst.With) or len(block.node.items) != 1:
        raise NotFixable("autocast shares its `with` with another context, or is no `with` block")
    made = next((x for x in bench.standing(backward) if block.holds(x) and x is not block), None)
    if made is None:
        raise NotFixable("the backward is in another function than the autocast block")
    first = bench.document.apart(made, bench.node(backward)) if made is bench.statement(backward) else made
    while first.owner is not None and first.owner is not block:
        first = first.owner
    inside = block.blocks[0].items
    at = inside.index(first)
    if at == 0:
        raise NotFixable("nothing would be left in the autocast block")
    following = inside[at:]
    for item in (x for top in following for x in top.leaves()):
        if not item.blocks and not bench.events_in(item) and not _is_bookkeeping(item):
            raise NotFixable("something that may belong to the forward follows inside the block")
    for item in reversed(following):
        bench.document.take_out(item, keep_lines=True)
        bench.document.put_after(item, block, keep_lines=True)


def _entered(bench: Bench, backward: Event, made: Statement) -> Statement:
    """`ctx = torch.autocast(…)` is entered by `with ctx:` later."""
    if not isinstance(made.small, cst.Assign):
        return made
    name = bench.code(made.small.targets[0].target)
    for owner in bench.statement(backward).ancestors():
        if isinstance(owner.node, cst.With) and bench.code(owner.node.items[0].item) == name:
            return owner
    return made


def _is_bookkeeping(statement: Statement) -> bool:
    """Logging and counting, which autocast does not concern."""
    return all(called(call) in _BOOKKEEPING for call in within(statement.node, cst.Call))


_BOOKKEEPING = {
    "print", "len", "float", "int", "str", "range", "item", "append", "extend", "update", "add_scalar", "add_scalars",
    "log", "log_metrics", "log_dict", "info", "debug", "warning", "write", "set_postfix", "set_description", "detach",
    "cpu", "tolist", "numpy", "empty_cache", "synchronize", "time", "format", "size", "get_scale", "get_last_lr",
    "perf_counter", "set_postfix_str", "step", "zero_grad", "backward", "scale", "unscale_", "clip_grad_norm_",
    "clip_grad_value_", "parameters",
}  # fmt: skip
