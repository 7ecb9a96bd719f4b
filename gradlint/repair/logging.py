"""Keeps the norm that a clip gives back, and logs it in the way the loop already logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import libcst as cst

from gradlint.events import Clip
from gradlint.records import dataclass
from gradlint.repair.arguments import call_of, keyword
from gradlint.repair.nodes import NotFixable, called, within

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench
    from gradlint.repair.tree import Statement

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
