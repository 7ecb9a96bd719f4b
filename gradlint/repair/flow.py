"""Which names a statement reads and binds: what may not be carried past what."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gradlint.records import dataclass, field


@dataclass(frozen=True, slots=True)
class Names:
    """The names and dotted names that a piece of code reads and binds."""

    read: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)

    def clash(self, other: Names) -> set[str]:
        """What would get another value if the two were exchanged."""
        return (self.bound & (other.read | other.bound)) | (self.read & other.bound)


def names_of(code: str) -> Names:
    """The names in the text of a statement (its header only, if the caller cut it so)."""
    found = Names()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name | ast.Attribute):
            text = node.id if isinstance(node, ast.Name) else ast.unparse(node)
            (found.read if isinstance(node.ctx, ast.Load) else found.bound).add(text)
        if isinstance(node, ast.AugAssign):
            found.read.add(ast.unparse(node.target))
    return found


def merged(parts: Iterable[Names]) -> Names:
    whole = Names()
    for part in parts:
        whole.read.update(part.read)
        whole.bound.update(part.bound)
    return whole


def leaves_block(code: str) -> bool:
    """A jump out of the place where it stands cannot be carried elsewhere."""
    jumps = (ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Yield, ast.YieldFrom)
    return any(isinstance(node, jumps) for node in ast.walk(ast.parse(code)))
