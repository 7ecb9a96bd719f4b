"""Small questions about libcst's nodes, and small changes of them; and the answer "no" of a rewrite.

`libcst.matchers` answers such questions too, but importing it takes as long as linting ten files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeVar

import libcst as cst

from gradlint.python.constants import as_float


class NotFixable(Exception):  # noqa: N818  # not an error: an answer, with its reason
    """This rewrite is not possible here; the text says why."""


N = TypeVar("N", bound=cst.CSTNode)


def within(root: cst.CSTNode, kind: type[N]) -> Iterator[N]:
    """All nodes of a kind in a piece of the tree."""
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, kind):
            yield node
        pending.extend(reversed(node.children))


def assigns(node: cst.CSTNode, name: str) -> bool:
    """`name = …`, and nothing else."""
    match node:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=bound))]):
            return bound == name
        case _:
            return False


def called(node: cst.CSTNode | None) -> str:
    """The name of the function that is called, without what it is looked up in; "" if it is no call of a name."""
    match node:
        case cst.Call(func=cst.Name(value=name) | cst.Attribute(attr=cst.Name(value=name))):
            return name
        case _:
            return ""


def is_name(node: cst.CSTNode | None, *names: str) -> bool:
    return isinstance(node, cst.Name) and node.value in names


def number(node: cst.CSTNode | None) -> float | None:
    """The value of a number as it is written, with its sign."""
    match node:
        case cst.Integer() | cst.Float():
            return as_float(node.evaluated_value)
        case cst.UnaryOperation(operator=cst.Minus(), expression=cst.Integer() | cst.Float() as value):
            known = number(value)
            return None if known is None else -known
        case _:
            return None


def is_whole_number(node: cst.CSTNode | None) -> bool:
    match node:
        case cst.Integer() | cst.UnaryOperation(operator=cst.Minus(), expression=cst.Integer()):
            return True
        case _:
            return False


def root(node: cst.BaseExpression) -> str:
    """`x` of `x.grad[0]`."""
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


#: these hold together whatever stands beside them
_TIGHT = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)


def is_tight(node: cst.BaseExpression) -> bool:
    """A method can be called on it as it is."""
    return bool(node.lpar) or isinstance(node, _TIGHT)


def enclosed(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def tight(node: cst.BaseExpression) -> cst.BaseExpression:
    """As something that a method can be called on."""
    return node if is_tight(node) else enclosed(node)


def bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """Without parentheses, unless they are a part of it."""
    return node if isinstance(node, cst.GeneratorExp | cst.Tuple) else node.with_changes(lpar=(), rpar=())


def in_product(code: str, node: cst.BaseExpression) -> str:
    """An operand of `/`: in parentheses where the division would bind more tightly than what is inside."""
    return code if is_tight(node) or isinstance(node, cst.Integer | cst.Float) else f"({code})"


def comma() -> cst.Comma:
    """As it stands between two arguments on one row."""
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def put(whole: cst.BaseExpression, old: cst.BaseExpression, new: cst.BaseExpression) -> cst.BaseExpression:
    """The expression with another part: in parentheses where a method is called on it."""
    if whole is old:
        return new
    argument = any(arg.value is old for arg in within(whole, cst.Arg))
    return whole.deep_replace(old, bare(new) if argument else tight(new))


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
