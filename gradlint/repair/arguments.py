"""Takes the calls of a training loop apart: whose step it is, which loss goes backward, what they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Backward, Event, Site, Step, Unscale, Update, Zero
from gradlint.repair.definitions import assignments
from gradlint.repair.imports import is_module
from gradlint.repair.nodes import NotFixable, bare, called, is_tight

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench


def call_of(bench: Bench, at: Event | Site) -> cst.Call:
    node = bench.node(at)
    if not isinstance(node, cst.Call):
        raise NotFixable("it is not a call")
    return node


def receiver(call: cst.Call) -> cst.BaseExpression:
    """`optimizer` of `optimizer.step()`."""
    if not isinstance(call.func, cst.Attribute):
        raise NotFixable("it is not a method")
    return call.func.value


def first_argument(call: cst.Call) -> cst.BaseExpression:
    if not call.args or call.args[0].star:
        raise NotFixable("it has no plain first argument")
    return call.args[0].value


def optimizer_of(bench: Bench, event: Step | Unscale | Zero) -> str:
    """The user's own words for the optimizer of a call."""
    call = call_of(bench, event)
    scaled = isinstance(event, Unscale) or (isinstance(event, Step) and event.scaler is not None)
    node = first_argument(call) if scaled else receiver(call)
    if not is_tight(node):
        raise NotFixable("its optimizer has no name")  # `scaler.step(0)`, `scaler.step(first if warm else second)`
    return bench.code(node)


def scaler_of(bench: Bench, event: Backward | Step | Unscale | Update) -> str:
    """The user's own words for the scaler of a call; of a backward, that of `scaler.scale(loss).backward()`."""
    call = call_of(bench, event)
    if isinstance(event, Backward):
        scale = scaling(call) or _scaled_before(bench, call)
        if scale is None:
            raise NotFixable("where the loss is scaled was not found")
        return bench.code(receiver(scale))
    return bench.code(receiver(call))


def scaling(backward: cst.Call) -> cst.Call | None:
    """`scaler.scale(loss)` of `scaler.scale(loss).backward()`."""
    inner = backward.func.value if isinstance(backward.func, cst.Attribute) else None
    return inner if isinstance(inner, cst.Call) and _is_scale(inner) else None


def _is_scale(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and called(node) == "scale"


def _scaled_before(bench: Bench, backward: cst.Call) -> cst.Call | None:
    """`scaled = scaler.scale(loss)` before `scaled.backward()`."""
    name = bench.code(backward.func.value) if isinstance(backward.func, cst.Attribute) else ""
    values = (made.value for made in assignments(bench, name))
    return next((x for x in values if isinstance(x, cst.Call) and _is_scale(x)), None)


def loss_of(bench: Bench, backward: Backward) -> cst.BaseExpression:
    """The expression that goes backward, inside of the scaling if there is one."""
    call = call_of(bench, backward)
    scale = scaling(call)
    if scale is not None:
        return first_argument(scale)
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward" and not _handed_over(call):
        return call.func.value
    return first_argument(call)


def _handed_over(call: cst.Call) -> bool:
    """`accelerator.backward(loss)`: the loss is the argument; `loss.backward(gradient)` has a tensor before it."""
    if not call.args or not isinstance(call.func, cst.Attribute):
        return False
    keyword = call.args[0].keyword
    if keyword is not None:
        return keyword.value in ("loss", "tensors")
    base = call.func.value
    last = base.attr.value if isinstance(base, cst.Attribute) else base.value if isinstance(base, cst.Name) else ""
    return "loss" not in last.lower()


def call_round(bench: Bench, func: cst.CSTNode) -> cst.Call:
    """`f(x)` round the name `f`."""
    for found in bench.calls(bench.code(func).rpartition(".")[2]):
        if found.func is func:
            return found
    raise NotFixable("it is handed on uncalled")


def first_of(call: cst.Call) -> cst.BaseExpression:
    """`x` of `f(x)` and of `f(input=x)`."""
    for n, arg in enumerate(call.args):
        if not arg.star and (arg.keyword.value == "input" if arg.keyword is not None else n == 0):
            return arg.value
    raise NotFixable("it has no plain argument")


def subject(bench: Bench, call: cst.Call) -> cst.BaseExpression:
    """`x` of `torch.exp(x)` and of `x.exp()`."""
    return receiver(call) if is_method(bench, call) else first_of(call)


def is_method(bench: Bench, call: cst.Call) -> bool:
    """`x.exp()`, and not `torch.exp(x)`."""
    return isinstance(call.func, cst.Attribute) and not is_module(bench, call.func.value)


def by_keyword(call: cst.Call, name: str) -> cst.Arg | None:
    """`name=…` of a call."""
    return next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == name), None)


def argument(call: cst.Call, name: str, position: int) -> cst.Arg:
    """An argument that may be given by its name or by its position."""
    for n, arg in enumerate(call.args):
        if arg.star:
            raise NotFixable("arguments are handed on with a star")
        if (arg.keyword is None and n == position) or (arg.keyword is not None and arg.keyword.value == name):
            return arg
    raise NotFixable(f"`{name}` was not found")


def named(arg: cst.Arg, name: str) -> cst.Arg:
    """The argument under this name, with the spaces that it has."""
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return arg.with_changes(keyword=cst.Name(name), equal=arg.equal if arg.keyword is not None else tight)


def keyword(name: str, value: cst.BaseExpression) -> cst.Arg:
    return named(cst.Arg(value), name)


def pass_keyword(bench: Bench, call: Site, name: str, value: str) -> None:
    """`f(x)` -> `f(x, name=value)`."""
    node = bench.node(call)
    if not isinstance(node, cst.Call) or not node.args:
        raise NotFixable("it is not a call with arguments")
    if any(arg.star == "**" for arg in node.args):
        raise NotFixable("arguments are handed on with two stars, and may hold it")
    *before, last = node.args
    new = keyword(name, cst.parse_expression(value))
    gap = before[-1].comma if before else cst.MaybeSentinel.DEFAULT
    between = _between(node, gap)
    if isinstance(last.comma, cst.Comma):
        # the comma at the end stays at the end; a comment behind the last argument stays with that
        closing = last.comma.whitespace_after
        last = last.with_changes(comma=cst.Comma(whitespace_after=_with_comment(between, closing)))
        new = new.with_changes(comma=cst.Comma(whitespace_after=_without_comment(closing)))
    else:
        closing = last.whitespace_after_arg
        comma = cst.Comma(whitespace_after=_with_comment(between, closing))
        last = last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
        new = new.with_changes(whitespace_after_arg=_without_comment(closing))
    bench.replace(node, node.with_changes(args=[*before, last, new]))


def _between(call: cst.Call, gap: cst.Comma | cst.MaybeSentinel) -> cst.BaseParenthesizableWhitespace:
    """What stands between two arguments: each on a row of its own, or all on one."""
    space = gap.whitespace_after if isinstance(gap, cst.Comma) else call.whitespace_before_args
    return _without_comment(space) if isinstance(space, cst.ParenthesizedWhitespace) else cst.SimpleWhitespace(" ")


def _without_comment(space: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    first = space.first_line.with_changes(whitespace=cst.SimpleWhitespace(""), comment=None)
    return space.with_changes(first_line=first, empty_lines=())


def _with_comment(
    between: cst.BaseParenthesizableWhitespace, closing: cst.BaseParenthesizableWhitespace
) -> cst.BaseParenthesizableWhitespace:
    """The gap in front of the new argument, with what was said behind the argument that was last."""
    said = isinstance(closing, cst.ParenthesizedWhitespace) and (closing.first_line.comment or closing.empty_lines)
    if not said:
        return between
    assert isinstance(closing, cst.ParenthesizedWhitespace)
    if not isinstance(between, cst.ParenthesizedWhitespace):
        return closing
    return between.with_changes(first_line=closing.first_line, empty_lines=closing.empty_lines)


def add_parentheses(bench: Bench, at: Site) -> None:
    """A method that was only named is called; the user's own text stays."""
    node = bench.expression(at)
    bench.replace(node, cst.Call(bare(node), lpar=node.lpar, rpar=node.rpar))
