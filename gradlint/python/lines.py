"""The rows of a text as Python counts them, and the characters that a node of its tree stands for."""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast

_END = re.compile(r"\r\n?|\n")


def lines_of(text: str) -> list[str]:
    """Lines with their ends; a form feed does not end one."""
    return io.StringIO(text, newline="").readlines()


class Lines:
    """The rows of one text; Python counts columns in bytes, people and libcst in characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(found.end() for found in _END.finditer(text))]
        self._ascii = text.isascii()

    @property
    def count(self) -> int:
        return len(self._starts)

    def start(self, row: int) -> int:
        """Where a row begins; the end of the text for those behind the last."""
        return self._starts[row - 1] if row <= len(self._starts) else len(self.text)

    def row(self, row: int) -> str:
        return self.text[self.start(row) : self.start(row + 1)]

    def offset(self, row: int, column: int) -> int:
        """The character at a column that is counted in bytes."""
        if self._ascii:
            return self.start(row) + column
        line = self.row(row)
        return self.start(row) + (column if line.isascii() else len(line.encode()[:column].decode(errors="replace")))

    def stretch(self, node: ast.expr | ast.stmt | ast.pattern) -> tuple[int, int]:
        """From the first character of a node up to, and without, the one behind it."""
        start = self.offset(node.lineno, node.col_offset)
        if node.end_lineno is None or node.end_col_offset is None:
            return start, start
        return start, self.offset(node.end_lineno, node.end_col_offset)

    def position(self, offset: int) -> tuple[int, int]:
        """Row and column of a character; rows are counted from 1, columns from 0."""
        row = bisect_right(self._starts, offset)
        return row, offset - self._starts[row - 1]
