"""Adds arguments to calls, laid out as the arguments that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Site
from gradlint.rewrite.refusal import NotFixable

if TYPE_CHECKING:
    from gradlint.rewrite.bench import Bench

_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def add_keyword(bench: Bench, call: Site, keyword: str, value: str) -> None:
    """`f(x)` -> `f(x, keyword=value)`."""
    node = bench.node(call)
    if not isinstance(node, cst.Call) or not node.args:
        raise NotFixable("it is not a call with arguments")
    if any(arg.star == "**" for arg in node.args):
        raise NotFixable("arguments are handed on with two stars, and may hold it")
    *before, last = node.args
    new = cst.Arg(cst.parse_expression(value), keyword=cst.Name(keyword), equal=_TIGHT)
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
