"""Where the nodes of a libcst tree stand in its text, and how each statement is written there.

libcst finds positions by writing the whole text anew and counting lines after every token. Here the same pass notes
only between which tokens each node stands; lines and columns are worked out for the few nodes that are asked for.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState
from libcst.metadata import CodePosition, CodeRange

#: the tokens from the first up to, and without, the second
_Stretch = tuple[int, int]

# by type: libcst's classes are abstract ones, for which isinstance() is slow
_STATEMENTS = {
    cst.SimpleStatementLine, cst.FunctionDef, cst.ClassDef, cst.If, cst.For, cst.While, cst.With, cst.Try, cst.TryStar,
    cst.Match,
}  # fmt: skip
_LINE_END = re.compile(r"\r\n?|\n")


class Places:
    """The positions of all nodes of one module; the same as those of libcst's `PositionProvider`."""

    def __init__(self, module: cst.Module) -> None:
        state = _Noting(module.default_indent, module.default_newline)
        module._codegen(state)
        self._stretches = state.stretches
        self._statements = state.statements
        self._tokens = state.tokens
        #: the text that libcst makes of the module
        self.code = "".join(state.tokens[:-1] if state.last_is_cut else state.tokens)

    def __getitem__(self, node: cst.CSTNode) -> CodeRange:
        start, end = self._stretches[node]
        return CodeRange(self._position(start), self._position(end))

    def written(self, statement: cst.CSTNode, indent: list[str]) -> list[str] | None:
        """The tokens of a statement with the lines above it; None if it is a new one, or was indented otherwise."""
        start, end, indented = self._statements.get(statement, (0, 0, None))
        return self._tokens[start:end] if indented == indent else None

    def _position(self, token: int) -> CodePosition:
        offset = self._offsets[token]
        line = bisect_right(self._lines, offset)
        return CodePosition(line, offset - self._lines[line - 1])

    @cached_property
    def _offsets(self) -> list[int]:
        return [0, *accumulate(map(len, self._tokens))]

    @cached_property
    def _lines(self) -> list[int]:
        return [0, *(found.end() for found in _LINE_END.finditer("".join(self._tokens)))]


class Unchanged:
    """Stands in a tree for a statement that is to be written as it was."""

    __slots__ = ("_places", "_statement")

    def __init__(self, statement: cst.CSTNode, places: Places) -> None:
        self._statement = statement
        self._places = places

    def _codegen(self, state: CodegenState) -> None:
        written = self._places.written(self._statement, state.indent_tokens)
        if written is None:
            self._statement._codegen(state)
        else:
            state.tokens.extend(written)


class _Noting(CodegenState):
    """Writes the text, and notes which tokens belong to each node."""

    def __init__(self, indent: str, newline: str) -> None:
        super().__init__(indent, newline)
        self.stretches: dict[cst.CSTNode, _Stretch] = {}
        #: with the lines above it, and the indentation that it stands in
        self.statements: dict[cst.CSTNode, tuple[int, int, list[str]]] = {}
        self.last_is_cut = False
        self._begun: list[int] = []

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._begun.append(len(self.tokens))

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self._begun.pop()
        if node not in self.stretches:
            self.stretches[node] = (start, len(self.tokens))
        elif type(node) in _STATEMENTS:
            self.statements[node] = (start, len(self.tokens), self.indent_tokens.copy())

    def pop_trailing_newline(self) -> None:
        # the positions count it
        self.last_is_cut = bool(self.tokens)

    def record_syntactic_position(
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> Any:  # fmt: skip
        return _Proper(self, node, start_node, end_node)


class _Proper:
    """Notes the tokens of a node without the spaces, comments and brackets round it."""

    __slots__ = ("_begun", "_end_node", "_node", "_start_node", "_state")

    def __init__(
        self, state: _Noting, node: cst.CSTNode, start_node: cst.CSTNode | None, end_node: cst.CSTNode | None
    ) -> None:  # fmt: skip
        self._state = state
        self._node = node
        self._start_node = start_node
        self._end_node = end_node
        self._begun = len(state.tokens)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        known = self._state.stretches
        start = self._begun if self._start_node is None else known[self._start_node][0]
        end = len(self._state.tokens) if self._end_node is None else known[self._end_node][1]
        known[self._node] = (start, end)
