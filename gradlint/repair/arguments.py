"""Finds the arguments of calls, and adds to them, laid out as those that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Site
from gradlint.repair.refusal import NotFixable

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench


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


def comma() -> cst.Comma:
    """As it stands between two arguments on one row."""
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def add_keyword(bench: Bench, call: Site, name: str, value: str) -> None:
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
