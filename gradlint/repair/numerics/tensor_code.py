"""Code that deals with tensors: functions and methods, what may be written twice, imports that nobody needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.knowledge import tensor_api as api
from gradlint.repair.arguments import comma
from gradlint.repair.definitions import Definition, root
from gradlint.repair.imports import drop, imports, uses
from gradlint.repair.layout import with_leading
from gradlint.repair.parentheses import bare, tight
from gradlint.repair.refusal import NotFixable
from gradlint.repair.shapes import within

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench

FUNCTIONAL = "torch.nn.functional"
#: what these names are in code that does not show its imports
_MODULES = frozenset({"torch", "th", "nn", "F"})


def is_module(bench: Bench, node: cst.BaseExpression) -> bool:
    """`F`, `torch`, `nn.functional`: not a tensor that a method is called on."""
    name = root(node)
    if name not in _MODULES and name not in _imported(bench):
        return False
    home = bench.statement(node).function
    if home is None:
        return True
    # `dist = torch.cdist(a, b)` in a file that imports torch.distributed under that name
    params = {x.name.value for x in within(home.node.params, cst.Param)}
    return name not in bench.names_bound(home) | params


def _imported(bench: Bench) -> set[str]:
    """Names of modules, those that only one function imports included."""
    return {
        alias.evaluated_alias or alias.evaluated_name.partition(".")[0]
        for statement in bench.document.statements()
        if isinstance(statement.node, cst.SimpleStatementLine)
        for small in statement.node.body
        if isinstance(small, cst.Import | cst.ImportFrom) and not isinstance(small.names, cst.ImportStar)
        for alias in small.names
    }


def dotted(bench: Bench, func: cst.BaseExpression) -> str:
    """What a name that was imported alone stands for."""
    return next((known.dotted for known in imports(bench) if known.local == bench.code(func)), "")


def first_of(call: cst.Call) -> cst.BaseExpression:
    """`x` of `f(x)` and of `f(input=x)`."""
    for n, arg in enumerate(call.args):
        if not arg.star and (arg.keyword.value == "input" if arg.keyword is not None else n == 0):
            return arg.value
    raise NotFixable("it has no plain argument")


def subject(bench: Bench, call: cst.Call) -> cst.BaseExpression:
    """`x` of `torch.exp(x)` and of `x.exp()`."""
    if isinstance(call.func, cst.Attribute) and not is_module(bench, call.func.value):
        return call.func.value
    return first_of(call)


def is_cheap(node: cst.BaseExpression) -> bool:
    """It may be written again: names, numbers, arithmetic, another shape; no network."""
    if any(within(node, cst.Lambda)) or any(within(node, cst.CompFor)) or any(within(node, cst.Await)):
        return False
    return all(isinstance(x.func, cst.Attribute) and x.func.attr.value in api.SAME for x in within(node, cst.Call))


def take_out(bench: Bench, home: Definition) -> None:
    """Removes an assignment; a block does not begin with the empty line that was behind it."""
    check_comments_kept(home.statement.node.body[0])
    siblings = home.statement.siblings()
    first = siblings[0] is home.statement
    bench.document.take_out(home.statement)
    if first and siblings and home.statement.owner is not None:
        lines = siblings[0].node.leading_lines
        siblings[0].node = with_leading(siblings[0].node, [x for n, x in enumerate(lines) if _is_said(lines[: n + 1])])


def _is_said(lines: Sequence[cst.EmptyLine]) -> bool:
    """There is a comment among them: empty lines at the head of a block say nothing."""
    return any(line.comment is not None for line in lines)


def forget_imports(bench: Bench, removed: Sequence[cst.CSTNode], new: cst.CSTNode) -> None:
    """Imports that only the old code used go, but for those that were changed for the new one."""
    kept = {name.value for name in within(new, cst.Name)}
    gone = {id(name) for node in removed for name in within(node, cst.Name)}
    for known in list(imports(bench)):
        places = uses(bench, known.local)
        if places and known.local not in kept and all(id(x) in gone for x in places) and not known.statement.replaced:
            drop(bench, known)


def put(whole: cst.BaseExpression, old: cst.BaseExpression, new: cst.BaseExpression) -> cst.BaseExpression:
    """The expression with another part: in parentheses where a method is called on it."""
    if whole is old:
        return new
    argument = any(arg.value is old for arg in within(whole, cst.Arg))
    return whole.deep_replace(old, bare(new) if argument else tight(new))


def alone(bench: Bench, node: cst.BaseExpression) -> cst.BaseExpression:
    """As the right side of an assignment: several rows need parentheses of their own there."""
    return tight(node) if "\n" in bench.code(node) else node


def negative(node: cst.BaseExpression) -> cst.BaseExpression:
    return cst.UnaryOperation(cst.Minus(), tight(node))


def check_comments_kept(old: cst.CSTNode, new: cst.CSTNode | None = None) -> None:
    """What was said in the old code is said in the new."""
    kept = Counter(x.value for x in within(new, cst.Comment)) if new is not None else Counter[str]()
    if Counter(x.value for x in within(old, cst.Comment)) - kept:
        raise NotFixable("a comment would be lost")


def pulled_out(inner: cst.BaseExpression, outer: cst.Call) -> cst.BaseExpression:
    """What stood on rows of its own inside a call takes the call's place, and its rows its indentation."""
    last = outer.args[-1] if outer.args else None
    if last is None:
        return inner
    closing = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else last.whitespace_after_arg
    opening = outer.whitespace_before_args
    if not isinstance(opening, cst.ParenthesizedWhitespace) or not isinstance(closing, cst.ParenthesizedWhitespace):
        return inner
    by = len(opening.last_line.value) - len(closing.last_line.value)
    return inner.visit(_Dedent(by)) if by > 0 else inner  # type: ignore[return-value]  # still an expression


class _Dedent(cst.CSTTransformer):
    def __init__(self, by: int) -> None:
        super().__init__()
        self._by = by

    def leave_ParenthesizedWhitespace(  # noqa: N802 - libcst's name
        self, original_node: cst.ParenthesizedWhitespace, updated_node: cst.ParenthesizedWhitespace
    ) -> cst.ParenthesizedWhitespace:
        row = updated_node.last_line.value
        shorter = row[self._by :] if len(row) >= self._by else row
        return updated_node.with_changes(last_line=updated_node.last_line.with_changes(value=shorter))


def on_one_row(node: cst.Call) -> cst.Call:
    """A call that stood on rows of its own, ready to stand inside of something else; comments keep it as it is."""
    return node if any(within(node, cst.Comment)) else cst.ensure_type(node.visit(_OneRow()), cst.Call)


class _OneRow(cst.CSTTransformer):
    def leave_ParenthesizedWhitespace(  # noqa: N802 - libcst's name
        self, original_node: cst.ParenthesizedWhitespace, updated_node: cst.ParenthesizedWhitespace
    ) -> cst.SimpleWhitespace:
        return cst.SimpleWhitespace("")

    def leave_Comma(self, original_node: cst.Comma, updated_node: cst.Comma) -> cst.Comma:  # noqa: N802 - libcst's name
        return comma()

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:  # noqa: N802 - libcst's name
        *before, last = updated_node.args or (None,)
        if last is None:
            return updated_node
        return updated_node.with_changes(args=[*before, last.with_changes(comma=cst.MaybeSentinel.DEFAULT)])
