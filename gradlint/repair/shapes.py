"""Small questions about libcst's nodes.

`libcst.matchers` answers them too, but importing it takes as long as linting ten files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import libcst as cst

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


def assigns_attribute(node: cst.CSTNode, name: str) -> bool:
    """`….name = …`, and nothing else."""
    match node:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Attribute(attr=cst.Name(value=bound)))]):
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
            return float(node.evaluated_value)
        case cst.UnaryOperation(operator=cst.Minus(), expression=cst.Integer() | cst.Float() as value):
            return -float(value.evaluated_value)
        case _:
            return None


def is_whole_number(node: cst.CSTNode | None) -> bool:
    match node:
        case cst.Integer() | cst.UnaryOperation(operator=cst.Minus(), expression=cst.Integer()):
            return True
        case _:
            return False
