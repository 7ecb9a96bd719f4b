"""Rewrites clips: by norm and not by value, through FSDP, where a window ends; and the parameters that they get."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Clip, Event, Framework
from gradlint.knowledge import frameworks
from gradlint.knowledge.rows import Does, Opens, Switch, Thing
from gradlint.knowledge.torch_api import FSDP1
from gradlint.repair.arguments import argument, call_of, call_round, first_argument, named, receiver
from gradlint.repair.definitions import assignments
from gradlint.repair.imports import drop_if_last, import_of, reference, rename
from gradlint.repair.nodes import NotFixable, called
from gradlint.repair.statements import callers

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench
    from gradlint.repair.tree import Statement

CLIP_NORM = "torch.nn.utils.clip_grad_norm_"


def clip_by_norm(bench: Bench, clip: Clip, limit: str | None = None) -> None:
    """`clip_grad_value_(params, v)` and `clamp_` in a loop over parameters -> `clip_grad_norm_(params, v)`."""
    call = call_of(bench, clip)
    row = _row(clip, called(call))
    if row is not None and row.limit is not None:
        _by_framework(bench, call, row, limit)
        return
    _check_not_asked_for(bench, call)
    if called(call) in ("clamp_", "clip_") and isinstance(call.func, cst.Attribute):
        _clamped(bench, call, limit)
    elif isinstance(call.func, cst.Attribute):
        bench.replace(call.func.attr, cst.Name("clip_grad_norm_"))
        _rename_argument(bench, call, "clip_value", "max_norm", limit)
    else:
        # all uses of the import at once: it gives another function then
        known = import_of(bench, call.func, "clip_grad_value_")
        rename(bench, known, "clip_grad_norm_", everywhere=True)
        for name_used in bench.names(known.local):
            one = call_round(bench, name_used)
            _rename_argument(bench, one, "clip_value", "max_norm", limit)
            if known.alias.asname is None:
                bench.replace(name_used, "clip_grad_norm_")


def _row(clip: Clip, method: str) -> Does | None:
    """What is known of a framework's own clip."""
    found = (frameworks.method(clip.framework, method, on) for on in (Thing.OBJECT, Thing.SUBCLASS))
    return next((row for row in found if isinstance(row, Does)), None)


def _by_framework(bench: Bench, call: cst.Call, row: Does, limit: str | None) -> None:
    """The limit of values becomes that of the norm, or the algorithm becomes "norm"."""
    assert row.limit is not None
    if row.value is not None:
        value = argument(call, row.value.names[0], row.value.position)
        norm = named(value, row.limit.names[0])
        bench.replace(value, norm if limit is None else norm.with_changes(value=cst.parse_expression(limit)))
        return
    assert row.algorithm is not None
    algorithm = argument(call, row.algorithm.names[0], row.algorithm.position).value
    if not isinstance(algorithm, cst.SimpleString):
        raise NotFixable("the algorithm is named elsewhere")
    bench.replace(algorithm, cst.SimpleString(f"{algorithm.quote}norm{algorithm.quote}"))
    if limit is not None:
        bench.replace(argument(call, row.limit.names[0], row.limit.position).value, limit)


def _check_not_asked_for(bench: Bench, call: cst.Call) -> None:
    """`elif mode == "value":` offers both on purpose."""
    for owner in bench.statement(call).ancestors():
        choice = owner.node
        while isinstance(choice, cst.If):
            if re.search(r"[\"']value[\"']", bench.code(choice.test)):
                raise NotFixable("it is asked for by its name")
            choice = choice.orelse


def _rename_argument(bench: Bench, call: cst.Call, old: str, new: str, value: str | None) -> None:
    """In place: lines and comments of a long call stay."""
    for n, arg in enumerate(call.args):
        named = arg.keyword is not None and arg.keyword.value == old
        if named and arg.keyword is not None:
            bench.replace(arg.keyword, cst.Name(new))
        if value is not None and (named or (arg.keyword is None and n == 1)):
            bench.replace(arg.value, value)


def _clamped(bench: Bench, call: cst.Call, limit: str | None) -> None:
    """The whole loop over the parameters becomes one call."""
    loop = bench.statement(call)
    while not isinstance(loop.node, cst.For):
        if loop.owner is None:
            raise NotFixable("the loop over the parameters was not found")
        loop = loop.owner
    leaves = list(loop.leaves())
    if sum(1 for x in leaves if not x.blocks) != 1:
        raise NotFixable("the loop does something else, too")
    for choice in leaves:
        if isinstance(choice.node, cst.If) and not re.search(r"\.(grad|requires_grad)\b", bench.code(choice.node.test)):
            raise NotFixable("only some of the parameters are clamped")
    parameters = _parameters(bench, loop, call)
    value = limit or _limit(bench, call)
    new = bench.document.new(f"{reference(bench, CLIP_NORM)}({parameters}, {value})", loop.block)
    comments = [line for x in leaves for line in x.node.leading_lines if line.comment]
    bench.document.put_before(new, loop)
    new.node = new.node.with_changes(
        leading_lines=(*new.node.leading_lines, *comments), trailing_whitespace=leaves[-1].node.trailing_whitespace
    )
    loop.node = loop.node.with_changes(leading_lines=())
    bench.document.take_out(loop)


def _parameters(bench: Bench, loop: Statement, call: cst.Call) -> str:
    """`model.parameters()`, also where the loop goes over `model.named_parameters()`; what else it goes over is not
    sure to be parameters."""
    assert isinstance(call.func, cst.Attribute)
    clamped = bench.code(call.func.value).removesuffix(".data")
    code, target = bench.code(loop.node.iter), loop.node.target
    if isinstance(target, cst.Name) and clamped == f"{target.value}.grad" and ".named_parameters(" not in code:
        return code
    if isinstance(target, cst.Tuple) and len(target.elements) == 2 and ".named_parameters(" in code:
        if clamped == f"{bench.code(target.elements[1].value)}.grad" and re.match(r"[\w.]+\.named_parameters\(", code):
            return code.replace(".named_parameters(", ".parameters(", 1)
    raise NotFixable("what the loop goes over is not plainly the parameters")


def _limit(bench: Bench, call: cst.Call) -> str:
    """The upper limit, if the lower one is its negative."""
    given = {a.keyword.value if a.keyword is not None else ("min", "max")[n]: a.value for n, a in enumerate(call.args)}
    high, low = given.get("max"), given.get("min")
    if high is None or low is None or bench.code(low).replace(" ", "").strip("()") != f"-{bench.code(high)}":
        raise NotFixable("its limits are not the same on both sides")
    return bench.code(high)


def clip_through_model(bench: Bench, clip: Clip) -> None:
    """`clip_grad_norm_(model.parameters(), 1.0)` -> `model.clip_grad_norm_(1.0)`."""
    call = call_of(bench, clip)
    parameters = first_argument(call)
    if called(parameters) != "parameters":
        raise NotFixable("the model of the clipped parameters is not written here")
    assert isinstance(parameters, cst.Call)
    assert isinstance(parameters.func, cst.Attribute)
    if not (clip.via and callers(bench, clip) == 1):
        _check_is_wrapped(bench, call, bench.code(parameters.func.value))
    for arg in call.args[1:]:
        if arg.star or (arg.keyword is not None and arg.keyword.value not in ("max_norm", "norm_type")):
            raise NotFixable("FSDP's clip_grad_norm_ has only max_norm and norm_type")
    drop_if_last(bench, call.func)
    func = cst.Attribute(parameters.func.value, cst.Name("clip_grad_norm_"))
    bench.replace(call, call.with_changes(func=func, args=call.args[1:]))


def _check_is_wrapped(bench: Bench, call: cst.Call, model: str) -> None:
    """The name is the FSDP object itself, always, and not only for one of several callers."""
    made = [x for x in assignments(bench, model) if called(x.value) in FSDP1]
    here = bench.statement(call).function
    near = [x for x in made if model.startswith("self.") or bench.statement(x).function is here]
    if not near or any(isinstance(x.node, cst.If) for a in near for x in bench.statement(a).ancestors()):
        raise NotFixable(f"`{model}` may not be an FSDP model here")


def clip_when_synced(bench: Bench, clip: Clip, framework: Framework) -> None:
    """Where the framework says which micro-batch is the last of its window."""
    windows = [row for row in framework.rows if isinstance(row, Opens) and row.context is Switch.WINDOW]
    methods = {name: row.told_by for row in windows if row.told_by for name in row.methods}
    found = {(bench.code(receiver(x)), told_by) for name, told_by in methods.items() for x in bench.calls(name)}
    if len(found) != 1:
        raise NotFixable(f"the object of {framework.name} was not found")
    owner, told_by = found.pop()
    bench.document.wrap_in(f"if {owner}.{told_by}:", bench.alone(clip))


def insert_clip(bench: Bench, step: Event, model: str) -> None:
    """A clip of the norm to 1.0 in front of the step."""
    if not re.fullmatch(r"[\w.]+", model):
        raise NotFixable("the model has no name here")
    bench.insert(f"{reference(bench, CLIP_NORM)}({model}.parameters(), max_norm=1.0)", before=step)


def make_list(bench: Bench, clip: Clip) -> None:
    """`params = model.parameters()` -> `params = list(model.parameters())`, in all places that make it."""
    node = bench.node(clip)
    names = [bench.code(first_argument(node) if isinstance(node, cst.Call) else node)]
    if clip.exhausted_by is not None:
        # a helper has another name for it than the call that used it up
        user = bench.node(clip.exhausted_by)
        names += [bench.code(a.value) for a in user.args] if isinstance(user, cst.Call) else [bench.code(user)]
    for name in names:
        homes = _generators(bench, name, bench.statement(clip.exhausted_by or clip))
        if homes:
            for value in homes:
                bench.replace(value, _as_list(value))
            return
    raise NotFixable(f"where `{names[0]}` is made was not found")


def _generators(bench: Bench, name: str, near: Statement) -> list[cst.BaseExpression]:
    """The expressions that a name is made of, through other names, in the function of its use if it is made there."""
    seen: set[str] = set()
    while name not in seen:
        seen.add(name)
        values = [x for x in assignments(bench, name) if len(x.targets) == 1]
        inside = [x for x in values if bench.statement(x).function is near.function]
        made = [x.value for x in inside or values if not isinstance(x.value, cst.List | cst.ListComp)]
        if len(made) == 1 and isinstance(made[0], cst.Name | cst.Attribute):
            name = bench.code(made[0])
            continue
        return [x for x in made if isinstance(x, cst.Call | cst.GeneratorExp)]
    return []


def _as_list(value: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(value, cst.GeneratorExp):
        left = cst.LeftSquareBracket(value.lpar[0].whitespace_after)
        right = cst.RightSquareBracket(value.rpar[0].whitespace_before)
        return cst.ListComp(value.elt, value.for_in, lbracket=left, rbracket=right)
    return cst.Call(cst.Name("list"), [cst.Arg(value)])
