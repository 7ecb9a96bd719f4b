"""Rewrites for distributed training: no_sync round forward and backward, on all but the last micro-batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Backward, Site, Step
from gradlint.knowledge.naming import RUNS_MODEL
from gradlint.knowledge.torch_api import DDP, FSDP1, FSDP2
from gradlint.repair.arguments import by_keyword
from gradlint.repair.boundary import before_boundary, before_last_turn, inner_loop, negated
from gradlint.repair.definitions import assignments
from gradlint.repair.imports import reference
from gradlint.repair.nodes import NotFixable, called, within

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench
    from gradlint.repair.tree import Statement

_WRAPPERS = DDP | FSDP1 | FSDP2
#: this, if that, else the other
Choice = tuple[str, str, str]


def wrap_in_no_sync(bench: Bench, backward: Backward, step: Step) -> None:
    """`with model.no_sync() if … else nullcontext():` round forward and backward."""
    first, last = _span(bench, backward)
    if len(_wrapped(bench)) > 1 and len(backward.params.owners) != 1:
        raise NotFixable("the loss goes through several models, each of which would need no_sync")
    if any(isinstance(e, Step) for e in bench.events_in(last)):
        raise NotFixable("the backward stands in one block with the step")
    bench.document.wrap(_header(bench, backward, step, first), first, last)


def _span(bench: Bench, backward: Backward) -> tuple[Statement, Statement]:
    """The statements of one block from the forward to the backward."""
    last = bench.statement(backward)
    if backward.forward is None:
        raise NotFixable("the forward was not found")
    forward = bench.statement(backward.forward)
    callers = _functions_round(forward)
    for owner in (last, *last.around()):
        for item in owner.siblings():
            if item.start > owner.end:
                break
            if item.holds(forward) or _calls(item, callers - _functions_round(last)):
                return item, owner
    raise NotFixable("forward and backward are in different functions")


def _functions_round(statement: Statement) -> set[str]:
    return {x.node.name.value for x in statement.ancestors() if isinstance(x.node, cst.FunctionDef)}


def _calls(statement: Statement, names: set[str]) -> bool:
    if not names or not isinstance(statement.node, cst.SimpleStatementLine | cst.With):
        return False
    return any(called(call) in names for call in within(statement.node, cst.Call))


def _header(bench: Bench, backward: Backward, step: Step, place: Statement) -> Choice:
    model = _model(bench, backward)
    assert backward.forward is not None
    elsewhere = bench.statement(backward.forward).function is not place.function
    if elsewhere and not model.startswith("self.") and model not in _wrapped(bench):
        raise NotFixable("the function of the forward has another name for the model")
    condition, boundary = _not_the_last(bench, backward, step, place)
    if not _always_wrapped(bench):
        wrapped = f"hasattr({model}, {bench.quote}no_sync{bench.quote})"
        condition = f"{condition} or not {wrapped}" if boundary else f"{wrapped} and {condition}"
    return _choice(bench, f"{model}.no_sync()", condition, boundary=boundary)


def _not_the_last(bench: Bench, backward: Backward, step: Step, place: Statement) -> tuple[str, bool]:
    """(a condition that tells at `place` whether this micro-batch ends its window, whether it is true if it does)."""
    loop = inner_loop(bench, backward, step)
    return before_boundary(bench, step, place) if loop is None else (before_last_turn(bench, loop), False)


def _wrapped(bench: Bench) -> set[str]:
    """The names that distributed models get."""
    return {bench.code(x.targets[0].target) for x in bench.assigns(calling=_WRAPPERS)}


def _always_wrapped(bench: Bench) -> bool:
    """The file wraps the model without a condition; else a plain model, which has no no_sync, may come here."""
    wraps = list(bench.calls(*_WRAPPERS))
    return bool(wraps) and not any(_is_conditional(bench, call) for call in wraps)


def _is_conditional(bench: Bench, call: cst.Call) -> bool:
    statement = bench.statement(call)
    choices = [x.node.test for x in statement.around() if isinstance(x.node, cst.If)]
    if any("__main__" not in bench.code(test) for test in choices):
        return True
    return any(call in within(x, cst.Call) for x in within(statement.node, cst.IfExp))


def _model(bench: Bench, backward: Backward) -> str:
    assert backward.forward is not None
    node = bench.node(backward.forward)
    if not isinstance(node, cst.Call):
        raise NotFixable("the forward is not a call")
    if RUNS_MODEL.search(called(node)):
        raise NotFixable("the forward runs in a function that is not seen")
    func = node.func
    if isinstance(func, cst.Attribute) and func.attr.value in ("forward", "__call__"):
        func = func.value
    if not isinstance(func, cst.Name | cst.Attribute):
        raise NotFixable("the model has no name here")
    return bench.code(func)


# -- the forward


def pull_forward_in(bench: Bench, backward: Backward) -> None:
    """The forward, and what lies between, go into the no_sync block."""
    assert backward.no_sync is not None
    block = _with_of(bench, bench.statement(backward))
    forward = bench.statement(backward.forward) if backward.forward is not None else None
    if block is None or forward is None:
        raise NotFixable("the no_sync block or the forward was not found")
    if len(block.node.items) > 1:
        raise NotFixable("no_sync shares its `with` with another context")
    if block.owner is not None and isinstance(block.owner.node, cst.If) and _unify_arms(bench, block, backward):
        return
    siblings = block.siblings()
    first = next((x for x in siblings if x.holds(forward)), None)
    if first is None:
        raise NotFixable("forward and no_sync are in different blocks")
    moved = siblings[siblings.index(first) : siblings.index(block)]
    context = bench.names_read(block.node.items[0].item)
    # `context = … no_sync …` right before the block stays before it
    setup = [x for x in moved if context & bench.names_bound(x)]
    if any(x.start < first.start or x is first for x in setup):
        raise NotFixable("the no_sync condition is made of what the forward gives")
    for item in setup:
        _check_free(bench, item, [x for x in moved if x not in setup and x.start < item.start])
        bench.document.take_out(item)
        bench.document.put_before(item, first)
    inside = block.blocks[0]
    head = inside.items[0]
    for item in (x for x in moved if x not in setup):
        bench.document.take_out(item, keep_lines=True)
        bench.document.put_before(item, head, keep_lines=True)
    bench.document.tidy_head(block, inside)


def _check_free(bench: Bench, statement: Statement, others: list[Statement]) -> None:
    """It may be carried past these."""
    mine = bench.all_names(statement)
    for other in others:
        mine.check_apart(bench.all_names(other))


def _with_of(bench: Bench, statement: Statement) -> Statement | None:
    for owner in statement.ancestors():
        if isinstance(owner.node, cst.With):
            if "no_sync" in bench.code(owner.node.items[0].item) or _is_context(owner):
                return owner
    return None


def _is_context(statement: Statement) -> bool:
    """`with context:` and `with context():` of a context that was made before."""
    item = statement.node.items[0].item
    return isinstance(item, cst.Name) or (isinstance(item, cst.Call) and isinstance(item.func, cst.Name))


def _unify_arms(bench: Bench, block: Statement, backward: Backward) -> bool:
    """`if full: loss.backward() else: with model.no_sync(): loss.backward()` -> one backward in one block."""
    choice = block.owner
    assert choice is not None
    quiet = block.blocks[0].items
    arms = {b.route: b for b in choice.blocks}
    if set(arms) != {("body",), ("orelse", "body")} or not isinstance(choice.node.orelse, cst.Else):
        return False
    in_body = block.block.route == ("body",)
    other = arms[("orelse", "body")] if in_body else arms[("body",)]
    count = len(quiet)
    if block.block.items != [block] or not bench.same(other.items[:count], quiet):
        return False
    siblings = choice.siblings()
    assert backward.forward is not None
    forward = bench.statement(backward.forward)
    first = next((x for x in siblings if x.holds(forward)), None)
    if first is None:
        return False
    bench.check_same_value(choice.node.test, first, choice)
    test = bench.code(choice.node.test)
    context = bench.code(block.node.items[0].item)
    header = _choice(bench, context, test, boundary=not in_body)
    rest = other.items[count:]
    if rest and in_body:
        return False  # what is left of the `else` would need the negated condition
    for item in list(block.blocks[0].items):
        bench.document.take_out(item, keep_lines=True)
        bench.document.put_before(item, choice, keep_lines=True)
    last = siblings[siblings.index(choice) - 1]
    bench.document.wrap(header, first, last)
    if rest:
        for item in other.items[:count]:
            bench.document.take_out(item)
        bench.document.drop_else(choice)
    else:
        bench.document.take_out(choice)
    return True


# -- the other way round


def invert_no_sync(bench: Bench, backward: Backward, no_sync: Site | None, step: Step) -> None:
    """no_sync where the condition does not hold, and nothing where it does; without one, the flag of the model."""
    if no_sync is None:
        _invert_flag(bench, backward)
        return
    node = bench.node(no_sync)
    statement = bench.statement(no_sync)
    stored = _stored_choice(bench, statement)
    if stored is not None:
        bench.replace(stored, stored.with_changes(body=stored.orelse, orelse=stored.body))
        return
    for choice in within(statement.node, cst.IfExp):
        if any(x is node for x in (*within(choice, cst.Call), *within(choice, cst.Attribute))):
            swapped = choice.with_changes(body=choice.orelse, orelse=choice.body)
            bench.replace(choice, bench.code(swapped))
            return
    switch = by_keyword(node, "enabled") if isinstance(node, cst.Call) else None
    if switch is not None:
        bench.replace(switch.value, negated(bench, switch.value))
        return
    for owner in (statement, *statement.ancestors()):
        if isinstance(owner.node, cst.With) and owner.node.items[0].item is node:
            _mend_block(bench, owner, backward, step)
            return
        made = bench.statement(backward)
        if isinstance(owner.node, cst.If) and not owner.holds(made):
            bench.replace(owner.node.test, negated(bench, owner.node.test))
            return
    raise NotFixable("the condition of no_sync was not found")


def _stored_choice(bench: Bench, statement: Statement) -> cst.IfExp | None:
    """`ctx = model.no_sync if … else nullcontext` of `with ctx():`."""
    if not isinstance(statement.node, cst.With) or "no_sync" in bench.code(statement.node.items[0].item):
        return None
    name = bench.code(statement.node.items[0].item).partition("(")[0]
    made = [x.value for x in assignments(bench, name)]
    only = made[0] if len(made) == 1 else None
    return only if isinstance(only, cst.IfExp) and "no_sync" in bench.code(only) else None


def _mend_block(bench: Bench, block: Statement, backward: Backward, step: Step) -> None:
    """`with model.no_sync():` without a condition."""
    item = block.node.items[0].item
    arms = next((x for x in block.ancestors() if isinstance(x.node, cst.If) and x.holds(bench.statement(step))), None)
    loop = inner_loop(bench, backward, step)
    if arms is not None:
        _change_arms(bench, arms, block)
        return
    if loop is None and step.guard is None:
        bench.document.unwrap(block)  # every backward is stepped: there is nothing to leave out
        return
    condition, boundary = _not_the_last(bench, backward, step, block)
    context = _choice(bench, bench.code(item), condition, boundary=boundary)
    if loop is not None and block.holds(loop):
        bench.document.unwrap(block)
        bench.document.wrap(context, loop.blocks[0].items[0], loop.blocks[0].items[-1])
    else:
        bench.replace(item, _text(context))


def _choice(bench: Bench, context: str, condition: str, *, boundary: bool) -> Choice:
    """The context while the condition holds, or, of a boundary, while it does not."""
    nothing = f"{reference(bench, 'contextlib.nullcontext')}()"
    return (nothing, condition, context) if boundary else (context, condition, nothing)


def _text(choice: Choice) -> str:
    return "{} if {} else {}".format(*choice)


def _change_arms(bench: Bench, choice: Statement, block: Statement) -> None:
    """no_sync stands in the arm that steps: the other arm gets it."""
    inside = block.blocks[0].items
    for arm in choice.blocks:
        if arm is not block.block and bench.same(arm.items, inside):
            context = bench.code(block.node.items[0].item)
            bench.document.unwrap(block)
            bench.document.wrap(context, arm.items[0], arm.items[-1])
            return
    raise NotFixable("no_sync stands in the branch of the step, and the other branch does something else")


def _invert_flag(bench: Bench, backward: Backward) -> None:
    """`model.require_backward_grad_sync = …` with the opposite value."""
    home = bench.statement(backward).function
    made = (x for x in bench.assigns("require_backward_grad_sync") if len(x.targets) == 1)
    flags = [x for x in made if isinstance(x.targets[0].target, cst.Attribute)]
    found = [x for x in flags if not home or home.holds(bench.statement(x))]
    if len(found) != 1:
        raise NotFixable("where syncing is switched off was not found")
    bench.replace(found[0].value, negated(bench, found[0].value))


def ask_boundary(bench: Bench, no_sync: Site, step: Step) -> None:
    """`model.no_sync() if … else nullcontext()` with the boundary's own question."""
    node = bench.node(no_sync)
    statement = bench.statement(no_sync)
    for choice in within(statement.node, cst.IfExp):
        quiet, other = (choice.body, choice.orelse) if choice.body is node else (choice.orelse, choice.body)
        if quiet is node:
            condition, boundary = before_boundary(bench, step, statement)
            texts = (bench.code(other), condition, bench.code(quiet))
            bench.replace(choice, _text(texts if boundary else texts[::-1]))
            return
    raise NotFixable("the condition of no_sync was not found")
