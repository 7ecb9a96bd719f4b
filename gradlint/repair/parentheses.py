"""Parentheses: round an operand that would fall apart without them, and off where nobody needs them."""

from __future__ import annotations

import libcst as cst

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
