"""What belongs to a statement beside its code: the comments right above it go with it, empty lines stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst

from gradlint.records import dataclass


@dataclass(frozen=True, slots=True)
class Leading:
    """The lines above a statement: its own comments, and the rest that belongs to the place."""

    rest: list[cst.EmptyLine]
    own: list[cst.EmptyLine]

    @classmethod
    def of(cls, node: Any) -> Leading:
        lines = list(node.leading_lines)
        cut = len(lines)
        while cut and lines[cut - 1].comment is not None:
            cut -= 1
        return cls(lines[:cut], lines[cut:])


def with_leading(node: Any, lines: Sequence[cst.EmptyLine]) -> Any:
    return node.with_changes(leading_lines=tuple(lines))


def heads(left: Sequence[cst.EmptyLine], follower: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """The lines above the statement that moves up: never more empty ones than either place had."""
    if any(line.comment for line in left):
        return [*left, *follower]
    if follower and follower[0].comment is None:
        return list(follower)
    return [*left, *follower]


def split_line(line: cst.SimpleStatementLine | cst.SimpleStatementSuite) -> list[cst.SimpleStatementLine]:
    """`a(); b()  # why` as two lines; the comment stays with the last."""
    parts = []
    for n, small in enumerate(line.body):
        alone = small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        first, last = n == 0, n == len(line.body) - 1
        leading = line.leading_lines if first and isinstance(line, cst.SimpleStatementLine) else ()
        trailing = line.trailing_whitespace if last else cst.TrailingWhitespace()
        parts.append(cst.SimpleStatementLine([alone], leading_lines=leading, trailing_whitespace=trailing))
    return parts
