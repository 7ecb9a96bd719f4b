"""Rewrites clips: by norm and not by value, through FSDP, where a window ends; the parameters that they get, and what
becomes of the norm that they give back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import libcst as cst

from gradlint.events import Clip, Event, Framework
from gradlint.knowledge import frameworks
from gradlint.knowledge.rows import Does, Opens, Switch, Thing
from gradlint.knowledge.torch_api import FSDP1
from gradlint.records import dataclass
from gradlint.repair.arguments import argument, call_of, call_round, first_argument, keyword, named, receiver
from gradlint.repair.definitions import assignments
from gradlint.repair.imports import drop_with, import_of, reference, rename
from gradlint.repair.nodes import NotFixable, called, within
from gradlint.repair.statements import callers

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench
    from gradlint.repair.tree import Statement

CLIP_NORM = "torch.nn.utils.clip_grad_norm_"
_CLAMPS = ("clamp_", "clip_", "clamp", "clip")


def clip_by_norm(bench: Bench, clip: Clip, limit: str | None = None) -> None:
    """`clip_grad_value_(params, v)` and `clamp_` in a loop over parameters -> `clip_grad_norm_(params, v)`."""
    call = _call(bench, clip)
    row = _row(clip, called(call))
    if row is not None and row.limit is not None:
        _by_framework(bench, call, row, limit)
        return
    _check_not_asked_for(bench, call)
    if called(call) in _CLAMPS and isinstance(call.func, cst.Attribute):
        _clamped(bench, call, limit)
    elif isinstance(call.func, cst.Attribute):
        bench.replace(call.func.attr, cst.Name("clip_grad_norm_"))
        _pass_norm(bench, call, limit)
    else:
        # all uses of the import at once: it gives another function then
        known = import_of(bench, call.func, "clip_grad_value_")
        rename(bench, known, "clip_grad_norm_", everywhere=True)
        for name_used in bench.names(known.local):
            one = call_round(bench, name_used)
            _pass_norm(bench, one, limit)
            if known.alias.asname is None:
                bench.replace(name_used, "clip_grad_norm_")


def _call(bench: Bench, clip: Clip) -> cst.Call:
    """The clip itself, or what is assigned: `p.grad = p.grad.clamp(-1, 1)`."""
    target = bench.node(clip)
    if isinstance(target, cst.Call) and called(target) != "copy_":
        return target
    for small in getattr(bench.statement(clip).node, "body", ()):
        if isinstance(small, cst.Assign) and len(small.targets) == 1 and small.targets[0].target is target:
            if isinstance(small.value, cst.Call) and bench.code(_operand(bench, small.value)) == bench.code(target):
                return small.value
    raise NotFixable("what is assigned is not only clamped")


def _operand(bench: Bench, call: cst.Call) -> cst.BaseExpression:
    """What is clamped, by its own method or by torch's function."""
    assert isinstance(call.func, cst.Attribute)
    own = call.func.value
    return own if re.search(r"\.grad(\.data)?$", bench.code(own)) else first_argument(call)


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


def _pass_norm(bench: Bench, call: cst.Call, limit: str | None) -> None:
    """`clip_value=v` -> `max_norm=v`, in place: lines and comments of a long call stay."""
    for n, arg in enumerate(call.args):
        if arg.keyword is not None and arg.keyword.value == "clip_value":
            bench.replace(arg.keyword, cst.Name("max_norm"))
        elif arg.keyword is not None or n != 1:
            continue
        if limit is not None:
            bench.replace(arg.value, limit)


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
    clamped = bench.code(_operand(bench, call)).removesuffix(".data")
    code, target = bench.code(loop.node.iter), loop.node.target
    if isinstance(target, cst.Name) and clamped == f"{target.value}.grad" and ".named_parameters(" not in code:
        return code
    if isinstance(target, cst.Tuple) and len(target.elements) == 2 and ".named_parameters(" in code:
        if clamped == f"{bench.code(target.elements[1].value)}.grad" and re.match(r"[\w.]+\.named_parameters\(", code):
            return code.replace(".named_parameters(", ".parameters(", 1)
    raise NotFixable("what the loop goes over is not plainly the parameters")


def _limit(bench: Bench, call: cst.Call) -> str:
    """The upper limit, if the lower one is its negative."""
    args = [a for a in call.args if a.value is not _operand(bench, call)]
    given = {a.keyword.value if a.keyword is not None else f"{a.star}{n}": a.value for n, a in enumerate(args)}
    low, high = given.get("min", given.get("0")), given.get("max", given.get("1"))
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
    if isinstance(call.func, cst.Name):
        drop_with(bench, call.func)
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
    """The clip acts only where the framework says that a micro-batch is the last of its window."""
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


# -- the norm that a clip gives back -----------------------------------------------------------------------------------


#: how a file logs, the best way first
_ENTRY = {"log", "set_postfix", "log_dict"}
_SCALAR = {"add_scalar", "log_metric"}
_LINE = {"info", "print", "write", "debug"}


@dataclass(frozen=True, slots=True)
class Log:
    """A call that logs, and its statement."""

    statement: Statement
    call: cst.Call
    name: str
    rank: int


def log_norm(bench: Bench, clips: Sequence[Clip], *, beside: bool = False) -> None:
    """`grad_norm = clip_grad_norm_(…)`, and a line for it where the loss is logged; `beside`: right behind the clip."""
    names = _names(bench, clips)
    loop = _loop(bench, clips)
    log = _log(bench, clips[-1], loop)
    if beside and (len(clips) > 1 or log.name not in ("add_scalar", "log_metric")):
        raise NotFixable("the norm is not known where the loop logs")
    for clip, name in zip(clips, names, strict=True):
        for call in _alike(bench, clip, loop):
            _keep(bench, call, name)
    if beside:
        bench.insert_behind(_scalar(bench, log, names[0]), bench.alone(clips[0]))
        return
    if _add_entries(bench, log, names):
        return
    anchor = bench.document.apart(log.statement, log.call)
    for name in reversed(names):
        code = _scalar(bench, log, name) if log.name in _SCALAR else _line(bench, log, name)
        bench.insert_behind(code, anchor)


def _names(bench: Bench, clips: Sequence[Clip]) -> list[str]:
    """One norm is `grad_norm`; of several each is named after what was clipped."""
    if len(clips) == 1:
        return ["grad_norm"]
    given = [call_of(bench, clip).args for clip in clips]
    targets = [re.sub(r"\.(parameters|named_parameters)\(.*", "", bench.code(x[0].value)) if x else "" for x in given]
    names = [f"{target.rpartition('.')[2].lower()}_grad_norm" for target in targets]
    if len(set(names)) < len(names) or not all(name.isidentifier() for name in names):
        raise NotFixable("the norms of several clips have no names")
    return names


def _loop(bench: Bench, clips: Sequence[Clip]) -> Statement:
    """The loop over batches, in the function of the clip; a function for one batch is its own."""
    first = bench.statement(clips[0])
    for owner in first.ancestors():
        if isinstance(owner.node, cst.For | cst.While | cst.FunctionDef):
            if all(owner.holds(bench.statement(clip)) for clip in clips):
                return owner
    raise NotFixable("the clips are in different functions")


# -- the clip


def _alike(bench: Bench, clip: Clip, loop: Statement) -> Iterator[cst.Call]:
    """The clip, and the same one in the other arm of a condition."""
    text = bench.code(clip)
    own = call_of(bench, clip)
    for call in bench.calls(called(own)):
        place = bench.document.at(call)
        if place is not None and loop.holds(place) and (call is own or bench.code(call) == text):
            yield call


def _keep(bench: Bench, call: cst.Call, name: str) -> None:
    statement = bench.statement(call)
    small = next((x for x in getattr(statement.node, "body", ()) if isinstance(x, cst.Expr) and x.value is call), None)
    if small is None:
        raise NotFixable("the clip is not a statement of its own")
    bound = cst.Assign([cst.AssignTarget(cst.Name(name))], call, semicolon=small.semicolon)
    bench.document.exchange(statement, small, bound)


# -- how this loop logs


def _log(bench: Bench, clip: Clip, loop: Statement) -> Log:
    """The best call behind the clip, in the same turn of the loop; of equal ones the first."""
    found = sorted(_logs(bench, clip, loop), key=lambda log: log.rank)
    if not found:
        raise NotFixable("nothing is logged behind the clip in this loop")
    return found[0]


def _logs(bench: Bench, clip: Clip, loop: Statement) -> Iterator[Log]:
    behind = bench.statement(clip).start
    for statement in loop.leaves():
        if statement.blocks or statement.start <= behind or _is_in_inner_loop(statement, loop):
            continue
        for call in within(statement.node, cst.Call):
            rank = _rank(bench, call, statement)
            if rank is not None:
                yield Log(statement, call, called(call), rank)


def _is_in_inner_loop(statement: Statement, loop: Statement) -> bool:
    for owner in statement.ancestors():
        if owner is loop:
            return False
        if isinstance(owner.node, cst.For | cst.While | cst.FunctionDef):
            return True
    return True


def _rank(bench: Bench, call: cst.Call, statement: Statement) -> int | None:
    """0 for entries of a dictionary, 1 for scalars, 2 for lines of text; None if it logs nothing that can be joined."""
    small = getattr(statement.node, "body", ())
    if not any(isinstance(x, cst.Expr) and x.value is call for x in small):
        return None
    name = called(call)
    base = bench.code(call.func.value) if isinstance(call.func, cst.Attribute) else ""
    if name in _ENTRY and _dictionary(call) is not None:
        return 0
    if name == "set_postfix" and call.args and all(a.keyword is not None for a in call.args):
        return 0
    if name in _SCALAR and len(call.args) >= 2 and _tag(call) is not None:
        return 1
    if name == "print" and not base and call.args:
        return 2
    if name in _LINE and re.search(r"(?i)log|tqdm|console", base) and call.args:
        return 2
    return None


def _dictionary(call: cst.Call) -> cst.Dict | None:
    first = call.args[0].value if call.args else None
    if not isinstance(first, cst.Dict) or not first.elements:
        return None
    return first if all(isinstance(e, cst.DictElement) and _text(e.key) is not None for e in first.elements) else None


def _text(node: cst.BaseExpression) -> str | None:
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
    return value if isinstance(value, str) else None


def _tag(call: cst.Call) -> str | None:
    return _text(call.args[0].value)


def _key(like: str | None, name: str) -> str:
    """`train/loss` -> `train/grad_norm`."""
    prefix, _, _ = (like or "").rpartition("/")
    return f"{prefix}/{name}" if prefix.lower() in ("train", "training") else name


# -- what is written


def _add_entries(bench: Bench, log: Log, names: list[str]) -> bool:
    """One more entry in the dictionary, or one more keyword, for each norm."""
    if log.name not in _ENTRY:
        return False
    table = _dictionary(log.call)
    values = [cst.parse_expression(f"{name}.item()") for name in names]
    if table is not None:
        first = table.elements[0]
        like = _text(first.key) if isinstance(first, cst.DictElement) else None
        keys = [cst.SimpleString(f"{bench.quote}{_key(like, name)}{bench.quote}") for name in names]
        new: list[Any] = [cst.DictElement(key, value) for key, value in zip(keys, values, strict=True)]
        longer = table.with_changes(elements=_joined(table.elements, new, table.lbrace.whitespace_after))
        bench.document.exchange(log.statement, table, longer)
        return True
    new = [keyword(name, value) for name, value in zip(names, values, strict=True)]
    args = _joined(log.call.args, new, log.call.whitespace_before_args)
    bench.document.exchange(log.statement, log.call, log.call.with_changes(args=args))
    return True


def _joined(old: Sequence[Any], new: list[Any], first: cst.BaseParenthesizableWhitespace) -> list[Any]:
    """New entries at the end, on rows of their own if the old ones are."""
    items = list(old)
    gap = first if isinstance(first, cst.ParenthesizedWhitespace) else cst.SimpleWhitespace(" ")
    between = items[0].comma if len(items) > 1 else cst.Comma(whitespace_after=gap)
    last = items[-1].comma
    for item in new:
        items[-1] = items[-1].with_changes(comma=between)
        items.append(item.with_changes(comma=last))
    return items


def _scalar(bench: Bench, log: Log, name: str) -> str:
    """`writer.add_scalar("grad_norm", grad_norm.item(), step)`, with the step of the other one."""
    quote = bench.quote
    tag = f"{quote}{_key(_tag(log.call), name)}{quote}"
    rest = [bench.code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for arg in log.call.args[2:]]
    return f"{bench.code(log.call.func)}({', '.join([tag, f'{name}.item()', *rest])})"


def _line(bench: Bench, log: Log, name: str) -> str:
    quote = bench.quote
    func = bench.code(log.call.func)
    if log.name != "print" and len(log.call.args) > 1:
        return f"{func}({quote}{name} %.3f{quote}, {name}.item())"
    return f"{func}(f{quote}{name} {{{name}.item():.3f}}{quote})"
